"""What this worker cannot run waits, visibly, and counts as nothing."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest

from penstock import Context, Penstock, task
from penstock.connect.enqueue import Enqueued
from tests.fixtures.elapsed import Elapsed
from tests.fixtures.worker import reaches, worker_of

pytestmark = pytest.mark.any_pooler


# Parked jobs come back so soon.
SOON = 0.05


@task(name="elsewhere")
async def elsewhere(number: int = 0) -> None:
    """A task that no worker here has registered."""


async def test_an_unknown_task_waits_uncounted_with_its_reason(app: Penstock) -> None:
    async with worker_of(app):
        job = await reaches(app, await app.enqueue(elsewhere), "scheduled")
    assert (job.reason, job.failures, job.attempt) == ("unknown_task", 0, 1)
    assert job.stuck_since is not None
    assert timedelta(seconds=8) < job.run_at - job.stuck_since <= timedelta(seconds=10)


async def test_job_with_bad_arguments_waits_and_names_the_field(app: Penstock) -> None:
    @task(name="count")
    async def before(number: str) -> None: ...

    @app.task(name="count")
    async def now(number: int) -> None: ...

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(before, "three"), "scheduled")
    assert (job.reason, job.failures) == ("bad_arguments", 0)
    assert "number" in job.errors[0].message


async def test_the_delay_grows_with_the_time_it_is_stuck(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    enqueued = await app.enqueue(elsewhere)
    elapsed = Elapsed()
    await connection.execute(
        "UPDATE penstock.job SET stuck_since = clock_timestamp() - interval '100 s'"
    )
    async with worker_of(app):
        job = await reaches(app, enqueued, "scheduled")
    most = timedelta(seconds=205 + 2 * elapsed.seconds)
    assert timedelta(seconds=185) < job.run_at - job.stuck_since < most


async def test_it_fails_after_the_limit_with_its_reason(app: Penstock) -> None:
    async with worker_of(app, park_limit=0.3, parked=SOON):
        job = await reaches(app, await app.enqueue(elsewhere), "failed")
    assert (job.reason, job.failures) == ("unknown_task", 0)
    assert job.attempt >= 2


async def test_it_runs_as_soon_as_a_worker_knows_it(app: Penstock) -> None:
    enqueued = await app.enqueue(elsewhere)
    await worker_of(app, parked=SOON).drain(limit=1)
    assert (await app.get(enqueued)).stuck_since is not None
    app.include(elsewhere)
    async with worker_of(app):
        job = await reaches(app, enqueued, "completed")
    assert (job.failures, job.stuck_since) == (0, None)


@pytest.mark.timeout(400)
async def test_very_many_unknown_jobs_do_not_slow_the_known_ones(app: Penstock) -> None:
    """To walk past an unknown one costs no more than to run a known one, and a little."""
    last = asyncio.Event()

    @app.task(name="known")
    async def known(number: int) -> None:
        if number == 0:
            last.set()

    async def seconds(requests: list) -> float:
        await app.enqueue_many(requests)
        last.clear()
        began = time.monotonic()
        async with worker_of(app, sweep=60):
            await asyncio.wait_for(last.wait(), 180)
        return time.monotonic() - began

    ballast = 20_000 if os.environ.get("PENSTOCK_LONG") else 3000
    alone = await seconds([known.prepare(n) for n in range(ballast, -1, -1)])
    behind = await seconds(
        [elsewhere.prepare(0)] * (5 * ballast) + [known.prepare(n) for n in range(1000, -1, -1)]
    )
    assert behind < 5 * alone * 4


class Model:
    """A thing that takes its time to open."""


class Opener:
    def __init__(self) -> None:
        self.works = False
        self.closed = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Model]:
        if not self.works:
            raise ConnectionError("the model server is down")
        yield Model()
        self.closed += 1


async def test_job_with_a_missing_resource_waits_while_others_run(app: Penstock) -> None:
    opener = Opener()
    app.resources.add(Model, opener)

    @app.task(resources=[Model])
    async def think(ctx: Context) -> str:
        return type(ctx.resource(Model)).__name__

    @app.task
    async def other() -> str:
        return "done"

    async def parked(enqueued: Enqueued[str]) -> None:
        job = await reaches(app, enqueued, "scheduled")
        assert (job.reason, job.failures) == ("missing_resource", 0)
        assert "Model" in job.errors[0].message

    async with worker_of(app, park_limit=0.1, parked=SOON, resources_retry=0.05):
        waiting = await app.enqueue(think)
        assert await app.wait(await app.enqueue(other), timeout=30) == "done"
        await parked(waiting)
        opener.works = True
        assert await app.wait(waiting, timeout=30) == "Model"
        assert opener.closed == 0
    assert opener.closed == 1


async def test_resources_are_opened_once_and_closed_in_reverse(app: Penstock) -> None:
    log: list[str] = []

    class First: ...

    class Second: ...

    @app.resource(First)
    @asynccontextmanager
    async def open_first() -> AsyncIterator[First]:
        log.append("open first")
        yield First()
        log.append("close first")

    @app.resource
    @asynccontextmanager
    async def open_second() -> AsyncIterator[Model]:
        log.append("open second")
        yield Model()
        log.append("close second")

    @app.task(resources=[First, Model])
    async def use(ctx: Context) -> None:
        ctx.resource(First)
        ctx.resource(Model)
        log.append("use")

    async with worker_of(app):
        for _ in range(2):
            await app.wait(await app.enqueue(use), timeout=30)
    assert log == ["open first", "open second", "use", "use", "close second", "close first"]


async def test_undeclared_resource_fails_the_job(app: Penstock) -> None:
    @app.task(max_attempts=1)
    async def think(ctx: Context) -> None:
        ctx.resource(Model)

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(think), "failed")
    assert job.errors[0].type.endswith("ResourceMissing")
