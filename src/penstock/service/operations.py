"""Check the readiness and health of a service, and hold its metrics."""

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

# Anybody may send probes, as often as they like, but the database is asked once a second.
READINESS_CACHE_S: Final = 1.0
DATABASE_TIMEOUT_S: Final = 3.0
DAYS_AHEAD: Final = 2


class Readiness:
    """Finds out whether a service can do its work, and logs each change."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._last_problem: str | None = None
        self._database_answers = True
        # What keeps the service from its work, in words that anybody may read; None if it is ready.
        self.problem = CachedValue(READINESS_CACHE_S, self._find_and_log_problem)

    async def database_answers(self) -> bool:
        """Return whether the database answered the last check, which is at most a second old."""
        await self.problem()
        return self._database_answers

    async def _find_and_log_problem(self) -> str | None:
        problem = await self._find_problem()
        if problem != self._last_problem:
            logger.warning("The service is not ready: %s", problem) if problem else logger.info(
                "Ready again."
            )
        self._last_problem = problem
        return problem

    async def _find_problem(self) -> str | None:
        until = time.monotonic() + DATABASE_TIMEOUT_S
        self._database_answers = True
        try:
            return await self._check_in_time()
        except SchemaError as error:
            return error.anywhere
        except Exception as error:
            self._database_answers = _is_answer(error)
            if time.monotonic() >= until:
                return f"The database has not answered within {DATABASE_TIMEOUT_S:g} seconds."
            # Anybody may send probes, so only the log shows the hosts and roles in the error.
            why = errors.why(error)
            logger.warning("The readiness check cannot read the database: %s.", why)
            return "The database cannot be reached."

    async def _check_in_time(self) -> str | None:
        pool = await self._app.pool()
        # Close the connection if the server is silent: a request to cancel would take a minute.
        deadline = asyncio.get_running_loop().time() + DATABASE_TIMEOUT_S
        async with pool.acquire(timeout=DATABASE_TIMEOUT_S) as connection:
            watchdog = asyncio.get_running_loop().call_at(deadline, connection.terminate)
            try:
                return await self._check(connection)
            finally:
                watchdog.cancel()

    async def _check(self, connection: Executor) -> str | None:
        schema = self._app.database.schema
        await migrate.check(connection, schema)
        statement = self._app.store.statement("examine_partitions")
        if gap := await connection.fetchrow(statement, schema, DAYS_AHEAD - 1):
            return (
                f"The history has no partition for {gap['day']}, so soon jobs cannot end. Is a "
                "worker running? Workers make the partitions; `penstock doctor` says more."
            )
        if unwritten := await self._unwritten_outcomes(connection):
            return (
                f"The outcomes of {counted(unwritten['jobs'], 'job')} cannot be written "
                f"({unwritten['error']}): workers claim no jobs. `penstock doctor` says more."
            )
        return None

    async def _unwritten_outcomes(self, connection: Executor) -> dict[str, Any] | None:
        """Return the number of outcomes that workers cannot write, and the error.

        Returns None if there are none, or if the role may not read what workers report.
        """
        try:
            row = await connection.fetchrow(self._app.store.statement("examine_unwritten"))
        except asyncpg.InsufficientPrivilegeError:
            return None
        return None if row is None else dict(row)


def _is_answer(error: Exception) -> bool:
    """Return whether the database answered, with an error about a missing part or right."""
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "").startswith("42")


# Health reads thousands of rows, so it is read at most every five seconds.
HEALTH_CACHE_S: Final = 5.0


class Operations:
    """The readiness, health and metrics of one service. All are cached."""

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
        self.down_registry = CollectorRegistry()
        self.down_registry.register(DatabaseDown())
        self._process = ProcessMetrics(app.events, self.queues.declared, self.registry)

    async def _health(self) -> Health:
        return await (await self._app.insights()).health(self._thresholds)

    def shows_metrics_to(self, connection: HTTPConnection) -> bool:
        """Return whether a client may read the metrics without a key.

        That requires `open_metrics`, and a client on this machine.
        """
        if not self._open_metrics:
            return False
        try:
            return ip_address(client_address(connection, self._entry)).is_loopback
        except ValueError:
            return False

    def close(self) -> None:
        """Stop counting jobs and attempts."""
        self._process.close()
