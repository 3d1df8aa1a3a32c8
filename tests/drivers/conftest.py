"""The app that the callers enqueue with, and each caller in turn."""

from collections.abc import AsyncIterator

import pytest

from penstock import Penstock
from tests.drivers.callers import ASYNC, BLOCKING, Caller
from tests.fixtures.database import Database
from tests.fixtures.kept import database, kept
from tests.fixtures.worker import app

__all__ = ["app", "database", "kept"]


@pytest.fixture(params=[*ASYNC, *BLOCKING], ids=lambda kind: kind.__name__)
async def caller(
    request: pytest.FixtureRequest, app: Penstock, database: Database
) -> AsyncIterator[Caller]:
    caller = request.param(app, database.url)
    yield caller
    await caller.close()


@pytest.fixture
def greet(app: Penstock):
    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    return greet
