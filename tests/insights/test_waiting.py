"""Why a job waits, in words."""

import asyncio

import asyncpg

from penstock import Penstock
from penstock.insights import Insights, Wait
from tests.fixtures.until import until
from tests.fixtures.worker import reaches, worker_of


async def kinds(insights: Insights, job: str) -> list[str]:
    return [wait.kind for wait in (await insights.job(job)).waits]


async def test_nobody_serves_its_queue(app: Penstock, insights: Insights) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    job = await app.enqueue(send)
    [wait] = (await insights.job(job.id)).waits
    assert wait == Wait(
        "no_worker",
        "No living worker serves the queue mail. Start one: `penstock work APP --queue mail`.",
    )


async def test_its_queue_is_paused(app: Penstock, insights: Insights) -> None:
    @app.task
    async def send() -> None: ...

    await app.pause("default")
    job = await app.enqueue(send)
    async with worker_of(app):
        [wait] = await until(
            lambda: _only(insights, job.id, "paused"), what="the worker to be seen"
        )
    assert "`penstock queues resume default`" in wait.message


async def test_no_worker_knows_its_task(app: Penstock, insights: Insights) -> None:
    @app.task
    async def known() -> None: ...

    await app.pause("default")
    async with Penstock(app.url) as other:

        @other.task(name="elsewhere.send")
        async def send() -> None: ...

        job = await other.enqueue(send)
    async with worker_of(app):
        await until(
            lambda: _are(insights, job.id, ["paused", "unknown_task"]), what="the worker to be seen"
        )
        await app.resume("default")
        await reaches(app, job, "scheduled")
        [wait] = (await insights.job(job.id)).waits[:1]
    assert wait.kind == "unknown_task"
    assert wait.message.startswith("It was put back: the worker that took it does not know")


async def test_all_slots_are_taken(app: Penstock, insights: Insights) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def walk() -> None:
        started.set()
        await go.wait()

    await app.enqueue(walk)
    async with worker_of(app, {"default": 1}):
        await started.wait()
        second = await app.enqueue(walk)
        assert await kinds(insights, second.id) == ["busy"]
        go.set()


async def test_its_worker_runs_another_alone(
    app: Penstock, insights: Insights, connection: asyncpg.Connection
) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def walk() -> None:
        started.set()
        await go.wait()

    lost = await app.enqueue(walk)
    await connection.execute("UPDATE penstock.job SET suspect = true")
    async with worker_of(app):
        await started.wait()
        second = await app.enqueue(walk)
        [wait] = await until(
            lambda: _only(insights, second.id, "isolation"), what="the heartbeat to tell"
        )
        assert wait.message.startswith(f"It waits until job {lost.id} has ended")
        go.set()
        await app.wait(second, timeout=30)


async def test_it_is_due_later(app: Penstock, insights: Insights) -> None:
    @app.task
    async def send() -> None: ...

    job = await app.enqueue(send.options(delay=3600))
    assert await kinds(insights, job.id) == ["later", "no_worker"]


async def test_an_attempt_failed_and_the_next_is_due_later(
    app: Penstock, insights: Insights
) -> None:
    @app.task(max_attempts=3)
    async def fail() -> None:
        raise ValueError("no")

    job = await app.enqueue(fail)
    await worker_of(app).drain()
    wait = (await insights.job(job.id)).waits[0]
    assert wait.kind == "retry"
    assert wait.message.startswith("1 of 3 attempts have failed; the next is due at ")


async def test_a_job_that_ended_waits_for_nothing(app: Penstock, insights: Insights) -> None:
    @app.task
    async def send() -> None: ...

    job = await app.enqueue(send)
    await worker_of(app).drain()
    assert await kinds(insights, job.id) == []


async def _are(insights: Insights, job: str, wanted: list[str]) -> bool:
    return await kinds(insights, job) == wanted


async def _only(insights: Insights, job: str, kind: str):
    waits = (await insights.job(job)).waits
    return waits if [wait.kind for wait in waits] == [kind] else None
