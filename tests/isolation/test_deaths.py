"""A job that takes its process with it: the cause is named, and nobody else notices."""

import os
import signal
from pathlib import Path

import pytest

from penstock import Fixed, Job, Penstock
from penstock.telemetry import ChildDied
from tests.fixtures.until import until
from tests.fixtures.worker import children_state, gathered
from tests.isolation import jobs
from tests.isolation.worker import (
    children_of,
    isolating,
    open_files,
    reaches,
    signed,
    supervisor_of,
)

CAUSES = {
    "aborts": ("death", "Killed", "Signal 6 (SIGABRT) ended", "in aborts"),
    "segfaults": ("death", "Segfault", "Signal 11 (SIGSEGV) ended", "in segfaults"),
    "bombs": ("death", "OutOfMemory", "The child process held", "in bombs"),
    "spins_in_c": ("death", "TimeLimit", "took longer than 0.3 s", "in spins_in_c"),
    "spins_past_its_timeout": (
        "timeout",
        "TimeLimit",
        "longer than 0.4 s",
        "in spins_past_its_timeout",
    ),
    "exits": ("death", "Exited", "left with exit code 7", ""),
    "hangs_up": ("death", "Killed", "Signal 1 (SIGHUP) ended", ""),
    "exits_with_0": ("death", "Exited", "left with exit code 0 in the middle of the job", ""),
    "hangs_up_on_its_worker": (
        "death",
        "ProtocolError",
        "closed the channel to its worker",
        "in hangs_up_on_its_worker",
    ),
    "writes_garbage": (
        "death",
        "ProtocolError",
        "sent invalid data to its worker",
        "in writes_garbage",
    ),
    "writes_what_could_be_a_length": (
        "death",
        "ProtocolError",
        "sent invalid data",
        "in writes_what_could_be_a_length",
    ),
    "writes_garbage_and_crashes": (
        "death",
        "ProtocolError",
        "did not open; signal 11 (SIGSEGV) ended the child process.",
        "in writes_garbage_and_crashes",
    ),
}


@pytest.mark.usefixtures("hang_ups_end")
async def test_each_cause_is_named_and_the_other_jobs_do_not_notice(
    app: Penstock, tmp_path: Path
) -> None:
    died = gathered(app, ChildDied)
    gate = tmp_path / "gate"
    async with isolating(app, children=3):
        others = [
            await app.enqueue(task, str(gate))
            for task in (jobs.in_child, jobs.on_loop, jobs.in_thread)
        ]
        deadly = {name: await app.enqueue(getattr(jobs, name)) for name in CAUSES}
        ended = {name: await reaches(app, job, "failed") for name, job in deadly.items()}
        gate.touch()
        pids = [await app.wait(job, timeout=30) for job in others]
        found = [await app.get(job) for job in others]
    assert pids[1:] == [os.getpid()] * 2
    assert pids[0] != os.getpid()
    assert [(job.attempt, job.errors) for job in found] == [(1, ())] * 3
    for name, (kind, type_, message, trace) in CAUSES.items():
        [error] = ended[name].errors
        assert (error.kind, error.type) == (kind, type_), name
        assert message in error.message, name
        assert trace in error.traceback, name
        reason = "exhausted" if kind == "timeout" else "poison"
        assert (ended[name].reason, ended[name].failures) == (reason, 1), name
    assert sorted(event.task.rpartition(".")[2] for event in died) == sorted(CAUSES)


async def test_a_child_killed_from_outside(app: Penstock, tmp_path: Path) -> None:
    async with isolating(app):
        job = await app.enqueue(jobs.waits_to_be_killed, str(tmp_path / "pid"))
        os.kill(await signed(tmp_path / "pid"), signal.SIGKILL)
        [error] = (await reaches(app, job, "failed")).errors
    assert (error.type, error.message[:18]) == ("Killed", "Signal 9 (SIGKILL)")


async def test_child_that_died_idle_is_replaced_when_a_job_comes(app: Penstock) -> None:
    """Not at once: what ended it may end each of them."""
    async with isolating(app, children=1) as worker:
        await reaches(app, await app.enqueue(jobs.exits), "failed")
        await until(lambda: children_state(worker).idle, what="a new child")
        [fresh] = children_of(supervisor_of(worker))
        os.kill(fresh, signal.SIGKILL)
        await until(lambda: not children_state(worker).all, what="the new child to be gone")
        assert await app.wait(await app.enqueue(jobs.pid), timeout=30) != fresh


async def test_so_many_deaths_are_allowed_and_failures_are_not_deaths(app: Penstock) -> None:
    cases = [([1, 2, 3], 3, "poison"), ([1, 4, 6], 6, "poison"), ([2, 5], 10, None)]
    async with isolating(app):
        enqueued = [await app.enqueue(jobs.dies_or_raises, deaths) for deaths, _, _ in cases]
        patient = jobs.dies_or_raises.options(retry=Fixed(3600))
        waiting: Job = await reaches(app, await app.enqueue(patient, [1]), "scheduled")
        assert (waiting.attempt, waiting.failures) == (1, 1)
        for job, (deaths, attempts, reason) in zip(enqueued, cases, strict=True):
            ended = await reaches(app, job, "failed", "completed")
            assert (ended.attempt, ended.reason) == (attempts, reason)
            assert [each.attempt for each in ended.errors if each.kind == "death"] == deaths


async def test_a_poisonous_job_that_is_redriven_begins_to_count_anew(app: Penstock) -> None:
    async with isolating(app):
        job = await app.enqueue(jobs.dies_or_raises, [1, 2, 3, 6, 7])
        assert (await reaches(app, job, "failed")).attempt == 3
        await app.retry(job)
        ended = await reaches(app, job, "completed")
    assert (ended.attempt, ended.failures) == (10, 6)


async def test_many_deaths_leave_nothing_behind(app: Penstock) -> None:
    async with isolating(app, children=4) as worker:
        await app.wait(await app.enqueue(jobs.pid), timeout=30)
        supervisor, files = supervisor_of(worker), open_files()
        supervisor_files = open_files(supervisor)
        dying = await app.enqueue_many(jobs.exits.prepare() for _ in range(24))
        worn = await app.enqueue_many(jobs.wears_out.prepare() for _ in range(30))
        for job in dying:
            await reaches(app, job, "failed")
        for job in worn:
            await reaches(app, job, "completed")

        def are_forgotten() -> bool:
            seen = children_state(worker)
            return not seen.leaving and len(children_of(supervisor)) == len(seen.all) <= 4

        await until(are_forgotten, what="those that leave, or died last, to be gone and forgotten")
        assert supervisor_of(worker) == supervisor
        living = len(children_state(worker).all)
        assert children_state(worker).files == living
        # A living child costs one file here, and one there.
        assert open_files() - files <= living
        assert open_files(supervisor) - supervisor_files <= living


async def test_what_a_child_printed_before_its_crash_is_not_lost(
    app: Penstock, capfd: pytest.CaptureFixture[str]
) -> None:
    async with isolating(app):
        await reaches(app, await app.enqueue(jobs.prints_and_aborts, "last words"), "failed")
    assert "last words" in capfd.readouterr().out
