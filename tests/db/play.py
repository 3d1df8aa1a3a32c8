"""A database to play in, for a state machine that is not async itself."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

import asyncpg
from hypothesis import HealthCheck, settings

import penstock.sql
from tests.db.engine import Engine
from tests.fixtures.database import Database
from tests.fixtures.pgbouncer import for_client

T = TypeVar("T")

LONG = bool(os.environ.get("PENSTOCK_LONG"))
PLAY = settings(
    max_examples=1000 if LONG else 100,
    stateful_step_count=100 if LONG else 50,
    # The short form plays the same games on every run: a failure in CI is one of this commit's.
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class Play:
    """One connection, and the loop that it lives in."""

    def __init__(self, database: Database) -> None:
        self._loop = asyncio.new_event_loop()
        self.engine = Engine(self.run(asyncpg.connect(database.url, **for_client())))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    def break_function(self, name: str, good: str, bad: str) -> None:
        """Put a fault into one of the queue's functions, to see that the play finds it."""
        text = penstock.sql.function(name, "penstock")
        assert text.count(good) == 1
        text = text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace(good, bad)
        self.run(self.engine.connection.execute(text))

    def close(self) -> None:
        self.run(self.engine.connection.close())
        self._loop.close()
