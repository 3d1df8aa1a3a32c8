"""Readiness, health and metrics of one service, for those who keep it running."""

from __future__ import annotations

import asyncio
import logging
import time
from ipaddress import ip_address
from typing import Any, Final

import asyncpg
from prometheus_client import CollectorRegistry
from starlette.requests import HTTPConnection

from penstock import migrate
from penstock.app.app import Penstock
from penstock.errors import SchemaError
from penstock.insights import Health, Thresholds
from penstock.service.cache import CachedValue
from penstock.service.hosts import Entry, client_address
from penstock.service.metrics import DatabaseDown, ProcessMetrics, QueueMetrics
from penstock.store import Executor, errors
from penstock.wording import counted

logger = logging.getLogger("penstock.service")

# Probes come every few seconds, and anybody may send them: the database is asked once a second.
READINESS_CACHE_S: Final = 1.0
DATABASE_TIMEOUT_S: Final = 3.0
DAYS_AHEAD: Final = 2


class Readiness:
    """Looks for what keeps a service from its work."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._told: str | None = None
        self._answers = True
        self.trouble = CachedValue(READINESS_CACHE_S, self._trouble)

    async def database_answers(self) -> bool:
        """Whether the database can be asked at all; it is at most as old as the trouble."""
        await self.trouble()
        return self._answers

    async def _trouble(self) -> str | None:
        """What is wrong, in words that anybody may read; None if nothing is."""
        told = await self._look()
        if told != self._told:
            logger.warning("Not ready: %s", told) if told else logger.info("Ready again.")
        self._told = told
        return told

    async def _look(self) -> str | None:
        until = time.monotonic() + DATABASE_TIMEOUT_S
        self._answers = True
        try:
            return await self._ask()
        except SchemaError as error:
            return error.anywhere
        except Exception as error:
            self._answers = _is_answer(error)
            if time.monotonic() >= until:
                return f"The database has not answered within {DATABASE_TIMEOUT_S:g} seconds."
            # Anybody may ask: what the driver says of hosts and roles is for the log alone.
            why = errors.why(error)
            logger.warning("The database cannot be asked whether all is well: %s.", why)
            return "The database cannot be reached."

    async def _ask(self) -> str | None:
        pool = await self._app.pool()
        # A connection whose server is silent is cut: to ask for a cancel would take a minute.
        late = asyncio.get_running_loop().time() + DATABASE_TIMEOUT_S
        async with pool.acquire(timeout=DATABASE_TIMEOUT_S) as connection:
            watchdog = asyncio.get_running_loop().call_at(late, connection.terminate)
            try:
                return await self._asked(connection)
            finally:
                watchdog.cancel()

    async def _asked(self, connection: Executor) -> str | None:
        schema = self._app.database.schema
        await migrate.check(connection, schema)
        statement = self._app.store.statement("examine_partitions")
        if gap := await connection.fetchrow(statement, schema, DAYS_AHEAD - 1):
            return (
                f"The history has no partition for {gap['day']}: soon jobs cannot end. Is there a "
                "worker? They make them; `penstock doctor` says more."
            )
        if held_up := await self._held_up(connection):
            return (
                f"The outcomes of {counted(held_up['jobs'], 'job')} cannot be written "
                f"({held_up['error']}): workers claim nothing. `penstock doctor` says more."
            )
        return None

    async def _held_up(self, connection: Executor) -> dict[str, Any] | None:
        """The outcomes that workers cannot write, if the role may see what workers tell."""
        try:
            row = await connection.fetchrow(self._app.store.statement("examine_unwritten"))
        except asyncpg.InsufficientPrivilegeError:
            return None
        return None if row is None else dict(row)


def _is_answer(error: Exception) -> bool:
    """Whether the database has answered, if only that it does not have or allow something."""
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "").startswith("42")


# It reads thousands of rows: seldom enough not to be felt, often enough to be true.
HEALTH_CACHE_S: Final = 5.0


class Operations:
    """Probes, health and metrics of one service; each looks at the database seldom."""

    def __init__(
        self,
        app: Penstock,
        entry: Entry,
        *,
        thresholds: Thresholds | None = None,
        open_metrics: bool = False,
    ) -> None:
        self._app = app
        self._entry = entry
        self._thresholds = thresholds or Thresholds.of()
        self._open_metrics = open_metrics
        self.readiness = Readiness(app)
        self.health = CachedValue(HEALTH_CACHE_S, self._health)
        self.registry = CollectorRegistry()
        self.queues = QueueMetrics(app, self.registry)
        self.registry_of_down = CollectorRegistry()
        self.registry_of_down.register(DatabaseDown())
        self._process = ProcessMetrics(app.events, self.queues.declared, self.registry)

    async def _health(self) -> Health:
        return await (await self._app.insights()).health(self._thresholds)

    def shows_metrics_to(self, connection: HTTPConnection) -> bool:
        """Whether the metrics are open to whoever this is: to this machine alone, if at all."""
        if not self._open_metrics:
            return False
        try:
            return ip_address(client_address(connection, self._entry)).is_loopback
        except ValueError:
            return False

    def close(self) -> None:
        """Count no more."""
        self._process.close()
