"""The primary dies and a synchronous standby is promoted, under a worker that has work."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.migrate import migrate
from penstock.telemetry import LeaseTaken
from tests.fixtures.address import with_hosts
from tests.fixtures.database import connected
from tests.fixtures.replicated import Replicated
from tests.fixtures.server import fast_folder
from tests.fixtures.until import until
from tests.fixtures.worker import gathered, worker_of

JOBS = 10
RUNNING = "SELECT count(*) FROM penstock.job WHERE state = 'running'"
COMPLETED = "SELECT count(*) FROM penstock.job_history WHERE state = 'completed'"


@pytest.fixture
def servers() -> Iterator[Replicated]:
    with tempfile.TemporaryDirectory(prefix="penstock-failover-", dir=fast_folder()) as folder:
        replicated = Replicated(Path(folder))
        with replicated.running():
            yield replicated


async def test_failover_to_a_synchronous_standby_loses_no_job(servers: Replicated) -> None:
    primary, standby = servers.primary.admin_url(), servers.standby.admin_url()
    await migrate(primary)
    async with connected(primary) as admin:
        await admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await admin.execute("SELECT pg_reload_conf()")
    go_on = asyncio.Event()
    runs: list[int] = []

    async with Penstock(with_hosts(primary, standby, target_session_attrs="read-write")) as app:
        leases = gathered(app, LeaseTaken)

        @app.task
        async def gated(number: int) -> None:
            await go_on.wait()
            runs.append(number)

        async with worker_of(app, {"default": JOBS}):
            await app.enqueue_many(gated.prepare(number) for number in range(JOBS))

            # A claim does not wait for the standby: one that is lost in a crash is made again.
            async def all_claimed() -> bool:
                return await counted(standby, RUNNING) == JOBS

            await until(all_claimed, what="the claims to reach the standby")
            await asyncio.to_thread(servers.primary.stop, "immediate")
            go_on.set()
            async with connected(standby) as promoting:
                await promoting.execute("SELECT pg_promote()")

            async def all_completed() -> bool:
                return await counted(standby, COMPLETED) == JOBS

            await until(all_completed, 60, what="all jobs to be completed on the new primary")
            later = await app.enqueue(gated, JOBS)
            await app.wait(later, timeout=30)
        assert sorted(runs) == list(range(JOBS + 1))
        assert len(leases) == 1


async def counted(url: str, question: str) -> int:
    async with connected(url) as connection:
        return int(await connection.fetchval(question))
