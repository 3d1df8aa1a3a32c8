"""Jobs that were taken from a lost worker: marked as begun when a child has time for them."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.store import ClaimedJob
from tests.chaos.process import Process
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import children_state
from tests.isolation import jobs
from tests.isolation.worker import isolating, reaches

SUSPECT = "UPDATE penstock.job SET suspect = true"
REFUSE_MARKS = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON penstock.job
    FOR EACH ROW WHEN (NEW.begun_token IS DISTINCT FROM OLD.begun_token)
    EXECUTE FUNCTION public.refuse();
"""
MARKED = "SELECT id FROM penstock.job WHERE begun_token = token"
LET_ITS_LEASE_BE_OVER = """
UPDATE penstock.lease SET expires_at = clock_timestamp() - interval '1 hour'
WHERE (info ->> 'pid')::int = $1
"""


async def test_a_suspect_is_marked_before_its_child_gets_it(
    app: Penstock, database: Database, connection: asyncpg.Connection
) -> None:
    job = await app.enqueue(jobs.is_marked, database.url)
    await connection.execute(SUSPECT)
    async with isolating(app):
        assert await app.wait(job, timeout=30) is True


async def test_what_waits_for_a_child_is_not_marked(
    app: Penstock, tmp_path: Path, connection: asyncpg.Connection
) -> None:
    """It would pay for the death of a worker in which it has not begun."""
    gate, notes = tmp_path / "gate", [tmp_path / str(number) for number in range(2)]
    waiting = [await app.enqueue(jobs.signs_on_loop, str(note), str(gate)) for note in notes]
    await connection.execute(SUSPECT)
    async with isolating(app, children=1) as worker:
        await until(lambda: any(note.exists() for note in notes), 30, what="the first to begin")
        await until(lambda: len(children_state(worker).waiting) == 1, what="the other to wait")
        marked = await connection.fetch(MARKED)
        begun = [job for job, note in zip(waiting, notes, strict=True) if note.exists()]
        assert [row["id"] for row in marked] == [int(job.id) for job in begun]
        gate.touch()
        for job in waiting:
            await app.wait(job, timeout=30)


async def test_a_suspect_that_has_lost_its_job_is_not_given_to_a_child(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    ask = app.store.mark_started

    async def mark(on: Any, jobs: list[ClaimedJob]) -> Any:
        if jobs[0].number == 1:
            await connection.execute(app.store.statement("mark_worker_lost"), jobs[0].id)
        return await ask(on, jobs)

    app.store.mark_started = mark  # type: ignore[method-assign, assignment]
    job = await app.enqueue(jobs.attempt)
    await connection.execute(SUSPECT)
    async with isolating(app, children=1):
        assert await app.wait(job, timeout=30) == 2


async def test_suspect_whose_mark_is_refused_frees_its_child(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    refused = await app.enqueue(jobs.attempt)
    await connection.execute(f"{SUSPECT}; {REFUSE_MARKS}")
    async with isolating(app, children=1):
        found = await reaches(app, refused, "scheduled")
        assert (found.reason, found.losses, found.failures) == ("unmarked", 0, 0)
        assert await app.wait(await app.enqueue(jobs.attempt), timeout=30) == 1


async def test_suspect_whose_child_dies_during_its_mark_gets_another(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()
    ask = app.store.mark_started

    async def mark(on: Any, jobs: list[ClaimedJob]) -> Any:
        asked.set()
        await answer.wait()
        return await ask(on, jobs)

    app.store.mark_started = mark  # type: ignore[method-assign, assignment]
    async with isolating(app, children=1) as worker:
        first = await app.wait(await app.enqueue(jobs.pid), timeout=30)
        async with connection.transaction():
            job = await app.inside(connection).enqueue(jobs.plain_pid)
            await connection.execute(SUSPECT)
        await asked.wait()
        before = children_state(worker).all
        os.kill(first, signal.SIGKILL)
        await until(lambda: children_state(worker).all != before, what="the death")
        answer.set()
        assert await app.wait(job, timeout=30) != first
    found = await app.get(job)
    assert (found.attempt, found.failures, found.losses) == (1, 0, 0)


@pytest.fixture
def processes(database: Database, tmp_path: Path) -> Iterator["Processes"]:
    with Processes(database.url, tmp_path) as processes:
        yield processes


class Processes:
    """Worker processes, one after the other, each until its job kills it."""

    def __init__(self, url: str, folder: Path) -> None:
        self._common = {"url": url, "folder": str(folder), "lease": 60.0, "children": 1}
        self._living: list[Process] = []
        self.deaths = 0

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._living:
            process.kill()

    def start(self) -> None:
        settings = self._common | {"name": f"worker-{self.deaths}"}
        self._living.append(Process("tests.isolation.program", settings))

    async def replace_the_dead(self, connection: asyncpg.Connection) -> None:
        if self._living and not self._living[-1].is_running:
            await connection.execute(LET_ITS_LEASE_BE_OVER, self._living.pop().pid)
            self.deaths += 1
        if not self._living:
            self.start()


@pytest.mark.parametrize(
    ("task", "reason", "deaths", "losses"),
    [
        # Once when nobody had marked it, then up to the limit of losses.
        (jobs.kills_its_worker, "worker_lost", 4, 3),
        # Only the first worker: from then on it kills children, and fails for that.
        (jobs.kills_its_process, "poison", 1, 0),
    ],
)
async def test_a_job_that_kills_its_process_ends(
    app: Penstock,
    connection: asyncpg.Connection,
    processes: Processes,
    task: Any,
    reason: str,
    deaths: int,
    losses: int,
) -> None:
    job = await app.enqueue(task)

    async def is_over() -> bool:
        await processes.replace_the_dead(connection)
        return (await app.get(job)).state == "failed"

    await until(is_over, 120, what="the job to end")
    await processes.replace_the_dead(connection)
    found = await app.get(job)
    assert (found.reason, found.losses, processes.deaths) == (reason, losses, deaths)
    healthy = await app.enqueue(jobs.plain_pid)
    await reaches(app, healthy, "completed")
