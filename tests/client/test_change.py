"""Cancel, retry, delete, pause."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from penstock import Fixed, Penstock
from penstock.errors import ConfigError, JobConflict, JobNotFound
from tests.fixtures.worker import reaches, worker_of


@pytest.fixture
def note(app: Penstock):
    @app.task(name="note")
    async def note(text: str = "") -> str:
        return text

    return note


@pytest.fixture
def broken(app: Penstock):
    @app.task(name="broken", retry=Fixed(0.01))
    async def broken() -> None:
        raise ValueError("never works")

    return broken


# Cancel


async def test_a_waiting_job_is_cancelled_and_never_runs(app: Penstock, note) -> None:
    enqueued = await app.enqueue(note)
    assert await app.cancel(enqueued)
    tally = await worker_of(app).drain(seconds=10)
    job = await app.get(enqueued)
    assert (job.state, job.reason, job.attempt) == ("cancelled", "requested", 0)
    assert tally.settled == 0


# Retry


async def test_a_failed_job_comes_back_under_its_id_with_fresh_chances(
    app: Penstock, broken
) -> None:
    enqueued = await app.enqueue(broken.options(max_attempts=2))
    async with worker_of(app):
        failed = await reaches(app, enqueued, "failed")
    assert (failed.attempt, failed.failures) == (2, 2)
    await app.retry(enqueued)
    job = await app.get(enqueued)
    assert (job.id, job.state, job.attempt, job.failures) == (enqueued.id, "ready", 2, 0)
    assert len(job.errors) == 2
    async with worker_of(app):
        again = await reaches(app, enqueued, "failed")
    assert (again.attempt, again.failures, len(again.errors)) == (4, 2, 4)


async def test_a_scheduled_job_is_due_now(app: Penstock, note) -> None:
    enqueued = await app.enqueue(note.options(delay=3600), "early")
    async with worker_of(app, rescan=3600, poll=3600):
        await app.retry(enqueued)
        assert await app.wait(enqueued, timeout=30) == "early"


async def test_a_running_job_cannot_be_retried_or_deleted(app: Penstock) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        started.set()
        await go_on.wait()

    async with worker_of(app):
        enqueued = await app.enqueue(slow)
        await started.wait()
        with pytest.raises(JobConflict, match="running"):
            await app.retry(enqueued)
        with pytest.raises(JobConflict, match="Cancel it first"):
            await app.delete(enqueued)
        go_on.set()
        await app.wait(enqueued, timeout=30)


# Delete


async def test_a_deleted_job_is_gone(app: Penstock, note) -> None:
    final = await app.enqueue(note)
    await worker_of(app).drain(seconds=10)
    waiting = await app.enqueue(note)
    for job in (final, waiting):
        await app.delete(job)
        assert await app.find(job) is None
        with pytest.raises(JobNotFound):
            await app.delete(job)


# Pause


async def test_nothing_is_claimed_from_a_paused_queue(app: Penstock, note) -> None:
    await app.pause("default")
    assert list(await app.paused()) == ["default"]
    async with worker_of(app, ["default", "other"], rescan=0.1):
        held = await app.enqueue(note, "held")
        free = await app.enqueue(note.options(queue="other"), "free")
        assert await app.wait(free, timeout=30) == "free"
        after = await app.enqueue(note.options(queue="other"), "after")
        await app.wait(after, timeout=30)
        assert (await app.get(held)).state == "ready"
        await app.resume("default")
        assert await app.wait(held, timeout=30) == "held"
    assert list(await app.paused()) == []


async def test_resuming_wakes_the_workers(
    app: Penstock, note, connection: asyncpg.Connection
) -> None:
    await app.pause("default")
    held = await app.enqueue(note, "held")
    async with worker_of(app, rescan=3600, poll=3600):
        await app.resume("default")
        assert await app.wait(held, timeout=timedelta(seconds=30)) == "held"


async def test_what_runs_goes_on_when_its_queue_is_paused(app: Penstock) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "done"

    async with worker_of(app):
        enqueued = await app.enqueue(slow)
        await started.wait()
        await app.pause("default")
        go_on.set()
        assert await app.wait(enqueued, timeout=30) == "done"


@pytest.mark.parametrize("name", ["📚", "", "a b", "q" * 129, 5])
async def test_only_what_a_queue_can_be_called_is_paused_and_resumed(
    app: Penstock, name: str
) -> None:
    for change in (app.pause, app.resume):
        with pytest.raises(ConfigError, match="The setting queue is"):
            await change(name)
    assert list(await app.paused()) == []


# Many


async def test_many_are_changed_at_once_and_each_is_answered_for(app: Penstock, note) -> None:
    first, second = await app.enqueue_many([note.prepare("a"), note.prepare("b")])
    assert await app.cancel_many([first, second.id, "999", "nonsense"]) == {
        first.id: "cancelled",
        second.id: "cancelled",
        "999": "missing",
        "nonsense": "missing",
    }
    assert await app.unblock_many([first]) == {first.id: "cancelled"}
    assert await app.retry_many([first]) == {first.id: "ready"}
    await worker_of(app).drain()
    assert await app.retry_many([first, second], completed=False) == {
        first.id: "completed",
        second.id: "ready",
    }
    assert await app.delete_many([first, second]) == {first.id: "deleted", second.id: "deleted"}
    assert await app.unique_holders([first, "nonsense"]) == {}


async def test_a_completed_job_that_runs_again_shows_no_error(app: Penstock) -> None:
    @app.task
    async def send() -> None: ...

    job = await app.enqueue(send)
    await worker_of(app).drain()
    await app.retry(job)
    assert (await app.present("job", [job.id]))[job.id].state.error is None
