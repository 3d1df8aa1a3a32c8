"""Waiting for a job's end."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from penstock import Context, Fixed, NotRetryable, Penstock, Workflow
from penstock.app.client import Client
from penstock.connect.enqueue import Enqueued
from penstock.errors import (
    BadArgument,
    BatchTimeout,
    JobCancelled,
    JobFailed,
    JobNotFound,
    WaitTimeout,
    WorkflowTimeout,
)
from penstock.groups import reasons
from tests.fixtures.app import open_slowly
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of


@pytest.fixture
def note(app: Penstock):
    @app.task(name="note")
    async def note(text: str = "") -> str:
        return text

    return note


async def test_the_result_comes_back(app: Penstock, note) -> None:
    async with worker_of(app):
        assert await app.wait(await app.enqueue(note, "hello"), timeout=30) == "hello"


async def test_a_job_may_have_no_result(app: Penstock) -> None:
    @app.task
    async def nothing() -> None: ...

    async with worker_of(app):
        assert await app.wait(await app.enqueue(nothing), timeout=30) is None


async def test_a_failed_job_raises_with_its_last_error(app: Penstock) -> None:
    @app.task(max_attempts=2, retry=Fixed(0.01))
    async def broken(ctx: Context) -> None:
        raise ValueError(f"attempt {ctx.attempt}")

    async with worker_of(app):
        enqueued = await app.enqueue(broken)
        with pytest.raises(JobFailed) as caught:
            await app.wait(enqueued, timeout=30)
    error = caught.value
    assert (error.job_id, error.reason) == (enqueued.id, "exhausted")
    assert (error.error_type, error.error_message) == ("ValueError", "attempt 2")


async def test_a_discarded_job_says_so(app: Penstock) -> None:
    @app.task
    async def hopeless() -> None:
        raise NotRetryable("the file is no PDF")

    async with worker_of(app):
        with pytest.raises(JobFailed, match=r"discarded.*no PDF"):
            await app.wait(await app.enqueue(hopeless), timeout=30)


async def test_a_cancelled_job_raises_while_it_is_waited_for(app: Penstock, note) -> None:
    enqueued = await app.enqueue(note.options(delay=60))
    waiting = asyncio.ensure_future(app.wait(enqueued))
    await app.cancel(enqueued, reason="not wanted any more")
    with pytest.raises(JobCancelled, match="not wanted any more"):
        await waiting


async def test_patience_has_an_end(app: Penstock, note) -> None:
    enqueued = await app.enqueue(note.options(delay=60))
    with pytest.raises(WaitTimeout, match="still scheduled") as caught:
        await app.wait(enqueued, timeout=0.05)
    assert caught.value.job_id == enqueued.id


async def test_a_short_wait_may_be_the_first_call_of_a_program(
    app: Penstock, database: Database, note
) -> None:
    """Connecting is not counted as waiting: what takes long is not a lost database."""
    enqueued = await app.enqueue(note.options(delay=60))
    fresh = Penstock(database.url)
    open_slowly(fresh, 1.0)
    try:
        with pytest.raises(WaitTimeout, match="still scheduled"):
            await fresh.wait(enqueued, timeout=0.05)
    finally:
        await fresh.close()


async def test_a_final_job_is_answered_without_patience(app: Penstock, note) -> None:
    enqueued = await app.enqueue(note, "done")
    await worker_of(app).drain(seconds=10)
    assert await app.wait(enqueued, timeout=0) == "done"


async def test_a_job_deleted_meanwhile_is_not_waited_for(app: Penstock, note) -> None:
    enqueued = await app.enqueue(note.options(delay=60))
    waiting = asyncio.ensure_future(app.wait(enqueued, timeout=30))
    await app.delete(enqueued)
    with pytest.raises(JobNotFound):
        await waiting


async def test_a_wait_in_vain_says_what_the_job_waits_for(app: Penstock) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    job = await app.enqueue(send)
    why = await unmet(app, job)
    assert why == (
        "No living worker serves the queue mail. Start one: `penstock work APP --queue mail`."
    )
    await app.pause("mail")
    assert "The queue mail is paused." in await unmet(app, job)
    later = await app.enqueue(send.options(delay=600))
    assert "It is due at" in await unmet(app, later)


async def test_a_wait_for_a_running_job_says_who_runs_it(app: Penstock) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def walk() -> None:
        started.set()
        await go.wait()

    job = await app.enqueue(walk)
    async with worker_of(app, {"default": 1}, name="mill"):
        await started.wait()
        assert (await unmet(app, job)).startswith("Worker mill has been running its attempt 1 for")
        second = await app.enqueue(walk)
        assert "All 1 slots of its workers are taken" in await unmet(app, second)
        go.set()


async def test_wait_reports_a_task_that_no_living_worker_knows(
    app: Penstock, database: Database, note
) -> None:
    job = await app.enqueue(note.options(queue="other"))
    await app.pause("other")
    async with Penstock(database.url) as empty, worker_of(empty, "other"):
        assert "No living worker of the queue other knows the task note." in await unmet(app, job)


async def test_wait_in_the_callers_transaction_gives_no_reason(
    app: Penstock, database: Database, note
) -> None:
    job = await app.enqueue(note.options(delay=60))
    async with connected(database.url) as connection:
        assert (await in_vain(app.inside(connection), job)).why == ""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a reason comes soon enough."""
    monkeypatch.setattr(reasons, "ANSWER_GRACE_S", 60.0)


async def test_a_batch_says_which_jobs_it_waits_for(app: Penstock, note, patient: None) -> None:
    async with app.batch() as batch:
        jobs = [await batch.enqueue(note.options(queue=name)) for name in ("a", "a", "b")]
        [later] = await batch.enqueue_many([note.options(delay=60).prepare()])
    with pytest.raises(BatchTimeout) as late:
        await batch.wait(timeout=0)
    why = late.value.why
    assert why in str(late.value)
    for job, queue in ((jobs[0], "a"), (jobs[2], "b")):
        assert f"Job {job.id} (note) is ready: No living worker serves the queue {queue}." in why
    assert f"Job {later.id} (note) is scheduled: " in why
    assert f"Job {jobs[1].id} " not in why
    await app.cancel_batch(batch)
    assert await app.why_batch(batch) == ""


async def test_a_workflow_says_which_jobs_it_waits_for(app: Penstock, note, patient: None) -> None:
    flow = Workflow("two")
    first = flow.add(note.prepare("a"))
    flow.add(note.prepare("b"), after=first)
    started = await app.start_workflow(flow)
    with pytest.raises(WorkflowTimeout) as late:
        await app.wait_workflow(started.id, timeout=0)
    [ready] = (await app.list(workflow=started.id, state="ready")).jobs
    assert late.value.why.startswith(f"Job {ready.id} (note) is ready: No living worker serves")
    assert late.value.why in str(late.value)
    assert "blocked" not in late.value.why


async def test_a_time_to_wait_that_makes_no_sense_is_refused(app: Penstock, note) -> None:
    job = await app.enqueue(note.options(delay=60))
    async with app.batch() as batch:
        pass
    for wrong in (-1, -0.5, float("nan"), timedelta(seconds=-1), True, "5"):
        for waiting in (app.wait, app.wait_batch, app.wait_workflow):
            with pytest.raises(BadArgument, match="timeout"):
                await waiting(job if waiting == app.wait else batch.id, timeout=wrong)


async def test_senseless_limits_and_durations_are_bad_arguments(app: Penstock) -> None:
    for call in (app.batches, app.workflows, app.schedules, app.audit, app.dead_letters):
        with pytest.raises(BadArgument, match="The argument limit is 0; it must be a whole number"):
            await call(limit=0)  # type: ignore[operator]
    with pytest.raises(BadArgument, match="The argument overlap is -1; it must be seconds"):
        await app.rotate_key("ci", overlap=-1)


async def in_vain(client: Client, job: Enqueued[Any]) -> WaitTimeout:
    with pytest.raises(WaitTimeout) as caught:
        await client.wait(job, timeout=0)
    return caught.value


async def unmet(app: Penstock, job: Enqueued[Any]) -> str:
    """Why a job waits; a machine that stands still may keep the first answers away."""

    async def look() -> str:
        return (await in_vain(app, job)).why

    return await until(look, what="the reason")
