"""A worker at a standby, which takes no writes: it says so, ends when it is told to, and waits."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Penstock, task
from penstock.migrate import migrate
from tests.cli.command import Commands
from tests.fixtures.database import connected
from tests.fixtures.replicated import Replicated
from tests.fixtures.until import until

NO_WRITES = "takes no writes"


@task(name="shop.send", queue="mail")
async def send(started: str, seconds: float) -> None: ...


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Replicated]:
    replicated = Replicated(tmp_path / "servers")
    with replicated.running():
        yield replicated


@pytest.fixture
def commands(servers: Replicated, tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(tmp_path, servers.standby.admin_url())
    yield commands
    commands.close()


async def migrated(servers: Replicated) -> None:
    """Migrate the primary, and wait until the standby has it all."""
    await migrate(servers.primary.admin_url())
    async with (
        connected(servers.primary.admin_url()) as primary,
        connected(servers.standby.admin_url()) as standby,
    ):
        written = await primary.fetchval("SELECT pg_current_wal_lsn()::text")
        there = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
        await until(lambda: standby.fetchval(there, written), what="the standby to follow")


async def test_worker_at_a_standby_serves_after_its_promotion(
    servers: Replicated, commands: Commands
) -> None:
    await migrated(servers)
    first, second = (commands.start("work", "shop", "--queue", "mail") for _ in range(2))
    for worker in (first, second):
        await until(lambda run=worker: NO_WRITES in run.log, what="the worker to say so")
    first.send(signal.SIGTERM)
    assert first.end(60) == 0, "Its hard end would be another code."
    [line] = [line for line in first.log.splitlines() if NO_WRITES in line]
    assert "WARNING" in line

    done = commands.folder / "done"
    async with connected(servers.standby.admin_url()) as standby:
        await standby.execute("SELECT pg_promote()")
    async with Penstock(servers.standby.admin_url()) as app:
        job = await app.enqueue(send, str(done), 0.0)
        await until(done.exists, what="the job to begin")
        await app.wait(job, timeout=60)
    second.send(signal.SIGTERM)
    assert second.end(60) == 0
