"""What a program can subscribe to."""

import logging

import pytest

from penstock import Fixed, Penstock
from penstock.telemetry import JobFinished, JobsClaimed, LeaseTaken
from tests.fixtures.until import until
from tests.fixtures.worker import gathered, worker_of

pytestmark = pytest.mark.any_pooler


async def test_every_settled_attempt_is_an_event(app: Penstock) -> None:
    finished, claimed = gathered(app, JobFinished), gathered(app, JobsClaimed)

    @app.task(name="flaky", retry=Fixed(0.01), max_attempts=2)
    async def flaky() -> None:
        raise ValueError

    async with worker_of(app):
        enqueued = await app.enqueue(flaky)
        await until(lambda: len(finished) == 2, what="both attempts")
    assert [(event.attempt, event.state, event.reason) for event in finished] == [
        (1, "scheduled", None),
        (2, "failed", "exhausted"),
    ]
    assert {(event.job_id, event.task, event.queue) for event in finished} == {
        (enqueued.id, "flaky", "default")
    }
    assert all(0 <= event.seconds < 30 for event in finished)
    assert [(event.queue, event.count) for event in claimed] == [("default", 1), ("default", 1)]


async def test_a_subscriber_that_raises_hurts_nobody(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: object) -> None:
        raise RuntimeError("not my day")

    for kind in (LeaseTaken, JobsClaimed, JobFinished):
        app.events.subscribe(kind, broken)
    finished = gathered(app, JobFinished)

    @app.task
    async def note() -> str:
        return "done"

    with caplog.at_level(logging.ERROR, "penstock.events"):
        async with worker_of(app):
            for _ in range(2):
                assert await app.wait(await app.enqueue(note), timeout=30) == "done"
            await until(lambda: len(finished) == 2, what="the other subscriber")
    assert "JobFinished" in caplog.text


async def test_a_subscription_can_be_ended(app: Penstock) -> None:
    seen: list[JobFinished] = []
    end = app.events.subscribe(JobFinished, seen.append)

    @app.task
    async def note() -> None: ...

    async with worker_of(app) as worker:
        await app.wait(await app.enqueue(note), timeout=30)
        await until(lambda: seen, what="the event")
        end()
        await app.wait(await app.enqueue(note), timeout=30)
        await until(lambda: worker.tally.completed == 2, what="the second")
    assert len(seen) == 1
    assert not app.events.has_subscribers(JobFinished)
