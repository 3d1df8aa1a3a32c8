"""Jobs in child processes, some of which crash, with a worker that is killed in the middle."""

from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from penstock import Penstock
from tests.chaos.process import Process
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.isolation import jobs

GOOD, BAD = 60, 8
ENDED = "SELECT count(*) FROM penstock.job_history"
PAID = "SELECT count(*), count(DISTINCT job) FROM public.paid"


def marked(mark: str) -> list[str]:
    """The processes that were started with this mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


async def test_every_job_ends_once_and_no_process_is_left_over(
    database: Database,
    connection: asyncpg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = f"mark-{uuid4()}"
    monkeypatch.setenv("TEST_ISOLATION_MARK", mark)
    await connection.execute("CREATE TABLE public.paid (job bigint)")
    settings = {"url": database.url, "folder": str(tmp_path), "children": 2}
    victim, heir = (
        Process("tests.isolation.program", settings | {"name": name}) for name in ("victim", "heir")
    )
    try:
        async with Penstock(database.url, include=[jobs]) as app:
            good = await app.enqueue_many(jobs.pays.prepare(database.url) for _ in range(GOOD))
            crashing = (jobs.kills_itself, jobs.exits, jobs.segfaults, jobs.aborts)
            bad = [await app.enqueue(task) for task in crashing for _ in range(BAD // 4)]
            await until(lambda: _some(connection, GOOD // 3), what="a third of the work")
            victim.kill()
            await until(lambda: _some(connection, GOOD + BAD), 60, what="all jobs to end")
            found = [await app.get(job) for job in bad]
            states = {(await app.get(job)).state for job in good}
        heir.ask_to_stop()
        assert await heir.ended() == 0
        assert states == {"completed"}
        assert tuple(await connection.fetchrow(PAID)) == (GOOD, GOOD)
        assert [job.reason for job in found] == ["poison"] * BAD
        for job in found:
            deaths = [error for error in job.errors if error.kind == "death"]
            assert len(deaths) == (2 if job.task == jobs.kills_itself.name else 1)
        await until(lambda: not marked(mark), what="all processes to end")
    finally:
        for process in (victim, heir):
            process.kill()


async def _some(connection: asyncpg.Connection, count: int) -> bool:
    return bool(await connection.fetchval(ENDED) >= count)
