"""Several hosts in the URL: a worker moves to the one that serves."""

import asyncio
from collections.abc import Iterator
from datetime import datetime

import asyncpg
import pytest

from penstock import Penstock
from penstock.telemetry import LeaseTaken
from tests.fixtures.address import with_hosts
from tests.fixtures.database import Database
from tests.fixtures.pgbouncer import is_between
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import gathered, listening, worker_of

READ_WRITE = {"target_session_attrs": "read-write"}


@pytest.fixture
def other(database: Database) -> Iterator[Proxy]:
    """A second way to the same database."""
    with Proxy(database.url) as other:
        yield other


async def test_running_job_keeps_its_lease_through_a_failover(
    database: Database, proxy: Proxy, other: Proxy, connection: asyncpg.Connection
) -> None:
    async with Penstock(with_hosts(proxy.url, other.url, **READ_WRITE)) as app:
        leases = gathered(app, LeaseTaken)
        begun, go_on = asyncio.Event(), asyncio.Event()

        @app.task
        async def slow() -> str:
            begun.set()
            await go_on.wait()
            return "done"

        async with worker_of(app) as worker:
            job = await app.enqueue(slow)
            await begun.wait()
            proxy.refuse()
            go_on.set()
            assert await app.wait(job, timeout=60) == "done"
            await renewed(connection)
            if not is_between():
                await listening(worker)
        assert len(leases) == 1


async def test_heartbeat_reaches_the_next_host_when_one_is_silent(
    database: Database, proxy: Proxy, other: Proxy, connection: asyncpg.Connection
) -> None:
    async with (
        Penstock(with_hosts(proxy.url, other.url, **READ_WRITE)) as app,
        worker_of(app, heartbeat=1.0),
    ):
        await renewed(connection)
        proxy.swallow()
        proxy.cut()
        await renewed(connection)
        proxy.heal()


async def renewed(connection: asyncpg.Connection) -> None:
    """Wait until the lease has been renewed twice from now on: one may be on its way."""

    async def renewal() -> datetime:
        at: datetime = await connection.fetchval("SELECT renewed_at FROM penstock.lease")
        return at

    for _ in range(2):
        before = await renewal()

        async def is_later(before: datetime = before) -> bool:
            return await renewal() > before

        await until(is_later, what="the heartbeat to reach the database")
