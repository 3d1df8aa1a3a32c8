"""Handlers and callers that do what one would rather not."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from penstock import Cancel, Context, Discard, Penstock, Retry
from tests.fixtures.worker import reaches, worker_of

pytestmark = [pytest.mark.usefixtures("led_elsewhere"), pytest.mark.any_pooler]


async def test_an_exception_given_as_the_error_of_a_retry_is_its_text(app: Penstock) -> None:
    @app.task(max_attempts=2)
    async def again() -> Retry:
        return Retry(after=0, error=ZeroDivisionError("by zero"))  # type: ignore[arg-type]

    enqueued = await app.enqueue(again)
    await worker_of(app).drain(seconds=60)
    job = await app.get(enqueued)
    assert (job.state, job.reason, job.failures) == ("failed", "exhausted", 2)
    assert [error.message for error in job.errors] == ["by zero", "by zero"]


@pytest.mark.parametrize("outcome", [Cancel(5), Discard(5)])  # type: ignore[arg-type]
async def test_a_reason_that_is_no_text_is_made_one(app: Penstock, outcome: object) -> None:
    @app.task(max_attempts=1)
    async def end() -> object:
        return outcome

    enqueued = await app.enqueue(end)
    await worker_of(app).drain(seconds=60)
    assert (await app.get(enqueued)).is_final


async def test_a_policy_that_raises_fails_the_job_instead_of_losing_it(app: Penstock) -> None:
    class Broken:
        def delay(self, failures: int, rng: object) -> float:
            raise LookupError("no such delay")

    @app.task(retry=Broken())
    async def fail() -> None:
        raise ValueError("once")

    enqueued = await app.enqueue(fail)
    await worker_of(app).drain(seconds=60)
    job = await app.get(enqueued)
    assert (job.state, job.reason) == ("failed", "discarded")
    assert "no such delay" in job.errors[-1].message


async def test_a_sync_handler_that_raises_stop_iteration_has_failed(app: Penstock) -> None:
    @app.task(max_attempts=1, timeout=90)
    def empty() -> object:
        return next(iter([]))

    enqueued = await app.enqueue(empty)
    tally = await worker_of(app).drain(seconds=60)
    assert tally.failed == 1
    assert (await app.get(enqueued)).errors[-1].type == "RuntimeError"


async def test_a_resource_that_opens_for_ever_does_not_stop_the_stop(app: Penstock) -> None:
    class Model:
        pass

    class Opening:
        async def __aenter__(self) -> Model:
            await asyncio.Event().wait()
            return Model()

        async def __aexit__(self, *exc: object) -> None: ...

    app.resources.add(Model, Opening)  # type: ignore[arg-type]

    @app.task(resources=(Model,))
    async def think() -> None: ...

    @app.task
    async def plain() -> str:
        return "done"

    waiting = await app.enqueue(think)
    async with asyncio.timeout(30), worker_of(app, resources_wait=0.05):
        assert await app.wait(await app.enqueue(plain), timeout=30) == "done"
        assert (await reaches(app, waiting, "scheduled")).reason == "missing_resource"


async def test_a_stop_that_nobody_waits_for_goes_on(app: Penstock) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        await release.wait()

    worker = worker_of(app)
    await worker.start()
    job = await app.enqueue(slow)
    await begun.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(worker.stop(), 0.05)
    release.set()
    await worker.stop()
    assert (await app.get(job)).state == "completed"
    assert not [each for each in threading.enumerate() if "penstock heartbeat" in each.name]


async def test_a_worker_is_started_once(app: Penstock) -> None:
    async with worker_of(app) as worker:
        with pytest.raises(RuntimeError, match="started already"):
            await worker.start()


async def test_an_error_after_complete_is_logged(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def bill(ctx: Context) -> None:
        pool = await app.pool()
        async with pool.acquire() as connection, connection.transaction():
            await ctx.complete(connection)
        raise ValueError("too late")

    enqueued = await app.enqueue(bill)
    await worker_of(app).drain(seconds=60)
    assert (await app.get(enqueued)).state == "completed"
    assert "raised ValueError after ctx.complete" in caplog.text


async def work() -> str:
    return "done"


async def forgets_await() -> object:
    return work()


def is_not_async() -> object:
    return work()


async def returns_a_future() -> object:
    return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (forgets_await, "returned a coroutine that nobody has awaited, so its work is not done"),
        (is_not_async, "make the handler `async def`"),
        (returns_a_future, "returned a Future"),
    ],
)
async def test_handler_that_returns_a_coroutine_fails(
    app: Penstock, handler: Callable[[], object], told: str
) -> None:
    enqueued = await app.enqueue(app.task(max_attempts=1)(handler))
    await worker_of(app).drain(seconds=60)
    job = await app.get(enqueued)
    assert (job.state, job.reason, job.last_error.type) == ("failed", "exhausted", "TypeError")
    assert told in job.last_error.message
