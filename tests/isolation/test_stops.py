"""Jobs in children are told to stop, and killed if they do not."""

import asyncio
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from penstock import Penstock
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import (
    STOPPING,
    children_state,
    retime_children,
    stop_once_answered,
    worker_state,
)
from tests.isolation import inside, jobs
from tests.isolation.worker import (
    gone,
    is_alive,
    isolating,
    reaches,
    signed,
    supervisor_of,
)


async def test_who_does_not_heed_a_cancellation_is_killed_and_replaced(
    app: Penstock, tmp_path: Path
) -> None:
    async with isolating(app) as worker:
        for task in (jobs.deaf_sleeper, jobs.deaf_spinner, jobs.starts_others):
            note = tmp_path / task.name
            job = await app.enqueue(task, str(note))
            pid = await signed(note)
            await app.cancel(job)
            await gone(pid)
            found = await reaches(app, job, "cancelled")
            assert (found.attempt, found.failures, found.errors) == (1, 0, ())
            assert await app.wait(await app.enqueue(jobs.pid), timeout=30) != pid
        assert worker.tally.refused == 0


async def test_who_heeds_it_keeps_its_child(app: Penstock, tmp_path: Path) -> None:
    async with isolating(app, children=1):
        pids = set()
        for task in (jobs.heeds, jobs.waits):
            note = tmp_path / task.name
            job = await app.enqueue(task, str(note))
            pids.add(await signed(note))
            await app.cancel(job)
            await reaches(app, job, "cancelled")
            pids.add(await app.wait(await app.enqueue(jobs.pid), timeout=30))
        for late in (jobs.late_async, jobs.late_sync):
            found = await reaches(app, await app.enqueue(late), "failed")
            [error] = found.errors
            assert (found.reason, error.kind, error.type) == ("exhausted", "timeout", "TimedOut")
            pids.add(await app.wait(await app.enqueue(jobs.pid), timeout=30))
    assert len(pids) == 1


async def test_a_job_that_waits_for_a_child_is_cancelled_at_once(
    app: Penstock, tmp_path: Path
) -> None:
    gate, note = tmp_path / "gate", tmp_path / "note"
    async with isolating(app, children=1) as worker:
        first = await app.enqueue(jobs.signs_and_waits, str(note), str(gate))
        await signed(note)
        second = await app.enqueue(jobs.pid)
        await reaches(app, second, "running")
        await app.cancel(second)
        await until(lambda: len(worker_state(worker).running) == 1, what="the second to be gone")
        gate.touch()
        await app.wait(first, timeout=30)


async def test_job_that_waits_too_long_for_a_child_is_released(
    app: Penstock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate, note = tmp_path / "gate", tmp_path / "note"
    async with isolating(app, children=1, child_wait=0.1):
        first = await app.enqueue(jobs.signs_and_waits, str(note), str(gate))
        await signed(note)
        second = await app.enqueue(jobs.pid)

        async def is_back() -> bool:
            return (await app.get(second)).attempt > 1

        await until(is_back, what="the second to be claimed again")
        gate.touch()
        assert await app.wait(second, timeout=30) == await app.wait(first, timeout=30)
    found = await app.get(second)
    assert (found.failures, found.losses, found.errors) == (0, 0, ())
    assert "for a child process are given back: 1. Give their queues fewer slots" in caplog.text


async def test_a_stop_lets_jobs_finish(app: Penstock, tmp_path: Path) -> None:
    gate, note = tmp_path / "gate", tmp_path / "note"
    worker = isolating(app)
    await worker.start()
    job = await app.enqueue(jobs.signs_and_waits, str(note), str(gate))
    pid, supervisor = await signed(note), supervisor_of(worker)
    stopping = asyncio.ensure_future(worker.stop())
    gate.touch()
    await stopping
    assert not any(map(is_alive, (pid, supervisor)))
    assert (await app.get(job)).result == pid


async def test_stop_kills_children_and_releases_their_jobs(app: Penstock, tmp_path: Path) -> None:
    worker = isolating(app, children=4, stopping=replace(STOPPING, finish=0.05, cancel=0.3))
    await worker.start()
    notes = [tmp_path / str(number) for number in range(4)]
    tasks = (jobs.heeds, jobs.waits, jobs.deaf_sleeper, jobs.stubborn)
    running = [await app.enqueue(task, str(note)) for task, note in zip(tasks, notes, strict=True)]
    pids = [await signed(note) for note in notes]
    # Only now: a worker that does not listen yet may find the second job before the first.
    waiting = await app.enqueue(jobs.pid)
    await reaches(app, waiting, "running")
    await worker.stop()
    assert not any(map(is_alive, pids))
    for job in (*running, waiting):
        found = await app.get(job)
        ended = (found.state, found.failures, found.losses, found.errors)
        assert ended == ("ready", 0, 0, ()), found


async def test_a_job_that_ends_at_the_moment_of_a_stop_has_ended(
    app: Penstock, tmp_path: Path
) -> None:
    gate, note = tmp_path / "gate", tmp_path / "note"
    async with isolating(app, children=1) as worker:
        job = await app.enqueue(jobs.signs_and_waits, str(note), str(gate))
        pid = await signed(note)
        gate.touch()
        stop_once_answered(worker)
        assert await app.wait(job, timeout=30) == pid
        assert await app.wait(await app.enqueue(jobs.pid), timeout=30) == pid


async def test_child_that_does_not_begin_its_job_is_killed(app: Penstock) -> None:
    async with isolating(app, children=1) as worker:
        blocked = await app.wait(await app.enqueue(jobs.leaves_what_blocks), timeout=30)
        # The next child has time to begin it.
        usual = retime_children(worker, child_begin=0.3)
        job = await app.enqueue(jobs.poisoned_once)
        await until(lambda: not children_state(worker).idle, what="the job to be given")
        retime_children(worker, child_begin=usual.child_begin)
        assert await app.wait(job, timeout=30) != blocked
    found = await app.get(job)
    assert (found.attempt, found.failures, found.errors) == (2, 0, ())


async def test_child_whose_handler_outlives_its_timeout_is_not_idle(
    app: Penstock, tmp_path: Path, connection: asyncpg.Connection
) -> None:
    gate = tmp_path / "gate"
    job = await app.enqueue(jobs.goes_on, str(gate))
    await connection.execute("UPDATE penstock.job SET suspect = true")
    async with isolating(app, children=1) as worker:
        await reaches(app, job, "failed")
        assert not children_state(worker).idle
        gate.touch()
        await until(lambda: children_state(worker).idle, what="the handler to end")


async def test_job_whose_resource_opened_too_late_is_released(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(inside.FOLDER, str(tmp_path))
    async with Penstock(database.url, include=[inside.uses_slow]) as app:
        app.resource(inside.Slow)(inside.open_slow)
        async with isolating(app, children=1, handler_begin=0.2):
            job = await app.enqueue(inside.uses_slow)
            await app.wait(job, timeout=30)
        found = await app.get(job)
    assert found.attempt > 1
    assert (found.failures, found.losses, found.errors) == (0, 0, ())
