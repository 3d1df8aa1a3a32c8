"""Jobs whose worker was lost."""

import asyncio

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.events import JobsRescued
from tests.fixtures.until import until
from tests.fixtures.worker import counted, crew_of, gathered, ghost, reaches, worker_of


async def test_a_lost_workers_jobs_run_again_with_the_loss_on_record(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    rescued = gathered(app, JobsRescued)

    @app.task
    async def note(ctx: Context) -> int:
        return ctx.job.losses

    jobs = await app.enqueue_many(note.prepare() for _ in range(3))
    assert len(await ghost(connection)) == 3
    async with worker_of(app):
        assert [await app.wait(job, timeout=30) for job in jobs] == [1, 1, 1]
    assert sum(event.count for event in rescued) == 3
    for job in jobs:
        found = await app.get(job)
        assert (found.losses, found.failures) == (1, 0)
        [error] = found.errors
        assert (error.kind, error.type, error.worker) == ("lost", "WorkerLost", "ghost")
        assert error.at is not None


async def test_a_living_workers_jobs_are_left_alone(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task
    async def note() -> str:
        return "done"

    enqueued = await app.enqueue(note)
    assert await ghost(connection, seconds=3600)
    looks = counted(app, "rescue")
    async with worker_of(app, rescue=0.02):
        await until(lambda: len(looks) >= 5, what="some looks")
        assert (await app.get(enqueued)).state == "running"
    assert not any(looks)


async def test_a_job_over_its_limit_of_losses_has_failed(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    rescued = gathered(app, JobsRescued)

    @app.task
    async def note() -> None: ...

    enqueued = await app.enqueue(note)
    await connection.execute("UPDATE penstock.job SET losses = 2")
    await ghost(connection)
    async with worker_of(app):
        job = await reaches(app, enqueued, "failed")
    assert (job.reason, job.losses, job.failures) == ("worker_lost", 3, 0)
    assert [(event.count, event.failed) for event in rescued] == [(1, 1)]


async def test_a_job_that_was_lost_runs_alone(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    running: set[str] = set()
    seen: dict[str, set[str]] = {}

    @app.task
    async def work(name: str) -> None:
        running.add(name)
        for other in running:
            seen.setdefault(other, set()).update(running)
        await asyncio.sleep(0.02)
        running.remove(name)

    lost = await app.enqueue(work, "lost")
    await connection.execute("UPDATE penstock.job SET losses = 1")
    async with worker_of(app, ["default", "other"]):
        jobs = await app.enqueue_many(
            work.options(queue=("default", "other")[n % 2]).prepare(f"n{n}") for n in range(30)
        )
        for job in (lost, *jobs):
            await app.wait(job, timeout=30)
    assert seen["lost"] == {"lost"}
    assert any(len(names) > 1 for names in seen.values())


async def test_neighbours_that_run_already_are_waited_for(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    order: list[str] = []
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(name: str) -> None:
        started.set()
        if name == "before":
            await go_on.wait()
        order.append(name)

    async with worker_of(app) as worker:
        await app.enqueue(work, "before")
        await started.wait()
        async with connection.transaction():
            lost = await app.inside(connection).enqueue(work, "lost")
            await connection.execute(
                "UPDATE penstock.job SET losses = 1 WHERE id = $1", int(lost.id)
            )
        await until(lambda: crew_of(worker).dispatcher.is_reserved, what="the lost job to wait")
        after = await app.enqueue(work, "after")
        assert (await app.get(after)).state == "ready"
        go_on.set()
        await app.wait(after, timeout=30)
    assert order == ["before", "lost", "after"]


@pytest.mark.parametrize("kind", ["quick", "waits", "unknown", "broken"])
async def test_after_a_lone_job_the_others_go_on(
    app: Penstock, connection: asyncpg.Connection, kind: str
) -> None:
    """However it ends."""

    @app.task(name="quick")
    async def quick() -> None: ...

    @app.task(name="waits")
    async def waits() -> None:
        await asyncio.sleep(0.01)

    @app.task(name="broken")
    async def broken() -> None:
        raise ValueError

    await app.enqueue(quick)
    await connection.execute("UPDATE penstock.job SET losses = 1, task = $1", kind)
    jobs = await app.enqueue_many(waits.prepare() for _ in range(10))
    async with worker_of(app, {"default": 3}, rescan=3600, poll=3600):
        for job in jobs:
            await app.wait(job, timeout=30)


async def test_a_lone_job_does_not_wait_for_ever(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(name: str) -> None:
        started.set()
        if name == "endless":
            await go_on.wait()

    async with worker_of(app, isolation_wait=0.1):
        endless = await app.enqueue(work, "endless")
        await started.wait()
        async with connection.transaction():
            lost = await app.inside(connection).enqueue(work, "lost")
            await connection.execute(
                "UPDATE penstock.job SET losses = 1 WHERE id = $1", int(lost.id)
            )
        await app.wait(lost, timeout=30)
        go_on.set()
        await app.wait(endless, timeout=30)
