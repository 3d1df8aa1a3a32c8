"""Jobs whose worker was lost."""

import asyncio
from typing import Any

import asyncpg
import pytest

from penstock import Batch, Context, Item, Penstock
from penstock.store import ClaimedJob
from penstock.telemetry import JobsRescued
from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import counted, gathered, ghost, reaches, worker_of, worker_state

SUSPECT = "UPDATE penstock.job SET suspect = true"
HOLD = "SELECT FROM penstock.job WHERE id = $1 FOR UPDATE"
IS_MARKED = "SELECT begun_token = token FROM penstock.job WHERE id = $1"
# Suspects that no child can import run beside the others at once.
SIDE_BY_SIDE = {"isolation_wait": 0.0}


async def test_a_lost_workers_jobs_run_again_and_tell_of_it_at_no_cost(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """They may have waited in that worker, as these did."""
    rescued = gathered(app, JobsRescued)

    @app.task
    async def note(ctx: Context) -> int:
        return ctx.job.losses

    jobs = await app.enqueue_many(note.prepare() for _ in range(3))
    assert len(await ghost(connection)) == 3
    async with worker_of(app):
        assert [await app.wait(job, timeout=30) for job in jobs] == [0, 0, 0]
    assert sum(event.count for event in rescued) == 3
    for job in jobs:
        found = await app.get(job)
        assert (found.losses, found.failures) == (0, 0)
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
    await ghost(connection, begins=True)
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
    await connection.execute("UPDATE penstock.job SET suspect = true")
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
                "UPDATE penstock.job SET suspect = true WHERE id = $1", int(lost.id)
            )
        await until(lambda: worker_state(worker).exclusive, what="the lost job to wait")
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
    await connection.execute("UPDATE penstock.job SET suspect = true, task = $1", kind)
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
                "UPDATE penstock.job SET suspect = true WHERE id = $1", int(lost.id)
            )
        await app.wait(lost, timeout=30)
        go_on.set()
        await app.wait(endless, timeout=30)


async def test_suspect_running_alone_delays_others_only_for_a_while(
    app: Penstock, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(name: str) -> None:
        if name == "endless":
            started.set()
            await go_on.wait()

    endless = await app.enqueue(work, "endless")
    others = [await app.enqueue(work, "lost"), await app.enqueue(work, "lost")]
    await connection.execute(SUSPECT)
    async with worker_of(app, isolation_wait=0.5):
        others.append(await app.enqueue(work, "fresh"))
        await started.wait()
        for job in others:
            await app.wait(job, timeout=60)
        assert not (await app.get(endless)).is_final
        go_on.set()
        await app.wait(endless, timeout=30)
    assert "has run alone for 0.5 s" in caplog.text


# The mark


def marks(app: Penstock) -> list[list[int]]:
    """The jobs of each write that marks suspects, from now on."""
    written: list[list[int]] = []
    ask = app.store.mark_started

    async def write(on: Any, jobs: list[ClaimedJob]) -> Any:
        written.append([job.id for job in jobs])
        return await ask(on, jobs)

    app.store.mark_started = write  # type: ignore[method-assign, assignment]
    return written


async def test_fresh_jobs_pay_no_write(app: Penstock) -> None:
    written = marks(app)

    @app.task
    async def note() -> None: ...

    jobs = await app.enqueue_many(note.prepare() for _ in range(20))
    async with worker_of(app):
        for job in jobs:
            await app.wait(job, timeout=30)
    assert written == []


@pytest.mark.parametrize("wait", [0.0, 30.0], ids=["beside the others", "alone"])
@pytest.mark.parametrize("kind", ["async", "plain", "batch"])
async def test_a_suspect_is_marked_before_it_begins(
    app: Penstock, connection: asyncpg.Connection, kind: str, wait: float
) -> None:
    loop = asyncio.get_running_loop()

    @app.task(name="async")
    async def on_loop(ctx: Context) -> bool:
        return await connection.fetchval(IS_MARKED, int(ctx.job.id))

    @app.task(name="plain")
    def in_thread(ctx: Context) -> bool:
        asked = connection.fetchval(IS_MARKED, int(ctx.job.id))
        return asyncio.run_coroutine_threadsafe(asked, loop).result(30)

    @app.task(name="batch", batch=Batch(size=2, linger=0.01))
    async def items(items: list[Item[int]]) -> list[bool]:
        return [await connection.fetchval(IS_MARKED, int(item.ctx.job.id)) for item in items]

    job = await (app.enqueue(items, 1) if kind == "batch" else app.enqueue(app.tasks.get(kind)))
    await connection.execute(SUSPECT)
    async with worker_of(app, isolation_wait=wait):
        assert await app.wait(job, timeout=30) is True


@pytest.mark.parametrize("is_item", [False, True], ids=["jobs", "items"])
async def test_while_a_suspect_runs_in_the_worker_no_other_is_marked(
    app: Penstock, connection: asyncpg.Connection, is_item: bool
) -> None:
    """It may kill the worker, and then they would pay although they never began."""
    written = marks(app)
    running = 0

    async def run_alone() -> int:
        nonlocal running
        running += 1
        await asyncio.sleep(0.02)
        together, running = running, running - 1
        return together

    @app.task
    async def work() -> tuple[int, int]:
        return await run_alone(), len(written)

    @app.task(batch=Batch(size=5, linger=0.01))
    async def items(items: list[Item[int]]) -> list[tuple[int, int]]:
        return [(await run_alone(), len(written)) for _ in items]

    jobs = await app.enqueue_many(
        items.prepare(number) if is_item else work.prepare() for number in range(5)
    )
    await connection.execute(SUSPECT)
    async with worker_of(app, {"default": 5}, **SIDE_BY_SIDE):
        seen = sorted([await app.wait(job, timeout=30) for job in jobs])
    assert seen == [[1, number] for number in range(1, 6)]
    assert sorted(written) == [[int(job.id)] for job in jobs]


async def test_a_suspect_that_runs_for_long_lets_the_next_begin(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    all_run = asyncio.Barrier(5)

    @app.task
    async def work() -> None:
        await all_run.wait()

    jobs = await app.enqueue_many(work.prepare() for _ in range(5))
    await connection.execute(SUSPECT)
    async with worker_of(app, {"default": 5}, **SIDE_BY_SIDE, suspect_window=(0.01, 0.02)):
        for job in jobs:
            await app.wait(job, timeout=30)


async def test_locked_suspect_does_not_delay_other_suspects(
    app: Penstock, database: Database, connection: asyncpg.Connection
) -> None:
    @app.task
    async def work() -> None: ...

    held = await app.enqueue(work)
    good = await app.enqueue(work)
    await connection.execute(SUSPECT)
    ask = app.store.mark_started
    async with database.connect() as other:
        holding = other.transaction()

        async def mark(on: Any, jobs: list[ClaimedJob]) -> Any:
            if jobs[0].id == int(held.id) and not holding_began.is_set():
                holding_began.set()
                await holding.start()
                await other.execute(HOLD, jobs[0].id)
            return await ask(on, jobs)

        holding_began = asyncio.Event()
        app.store.mark_started = mark  # type: ignore[method-assign, assignment]
        async with worker_of(app, {"default": 5}, **SIDE_BY_SIDE):
            await holding_began.wait()
            await app.wait(good, timeout=30)
            await holding.rollback()
            found = await reaches(app, held, "scheduled", "completed")
            assert found.losses == 0


@pytest.mark.parametrize("is_item", [False, True], ids=["job", "item"])
async def test_a_suspect_that_has_lost_its_job_does_not_begin(
    app: Penstock, connection: asyncpg.Connection, is_item: bool
) -> None:
    attempts: list[int] = []
    ask = app.store.mark_started

    async def write(on: Any, about_to_begin: list[ClaimedJob]) -> Any:
        if about_to_begin[0].number == 1:
            await connection.execute(app.store.statement("mark_worker_lost"), about_to_begin[0].id)
        return await ask(on, about_to_begin)

    app.store.mark_started = write  # type: ignore[method-assign, assignment]

    @app.task
    async def work(ctx: Context) -> None:
        attempts.append(ctx.attempt)

    @app.task(batch=Batch(size=2, linger=0.01))
    async def items(items: list[Item[int]]) -> list[None]:
        attempts.extend(item.ctx.attempt for item in items)
        return [None for _ in items]

    job = await (app.enqueue(items, 1) if is_item else app.enqueue(work))
    await connection.execute(SUSPECT)
    async with worker_of(app, **SIDE_BY_SIDE) as worker:
        await app.wait(job, timeout=30)
        assert not worker_state(worker).running
    assert attempts == [2]


async def test_a_mark_whose_answer_was_lost_is_written_again(
    proxy: Proxy, connection: asyncpg.Connection
) -> None:
    async with Penstock(proxy.url) as app:
        attempts: list[int] = []

        @app.task
        async def work(ctx: Context) -> None:
            attempts.append(ctx.attempt)

        job = await app.enqueue(work)
        await connection.execute(SUSPECT)
        lost = proxy.drop_reply_after("mark_started_v1")
        async with worker_of(app):
            await lost.wait()
            await app.wait(job, timeout=30)
    assert attempts == [1]


async def test_a_suspect_that_waits_for_its_mark_goes_back_at_a_stop(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    began, asked, answer = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ask = app.store.mark_started

    async def write(on: Any, jobs: list[ClaimedJob]) -> Any:
        asked.set()
        await answer.wait()
        return await ask(on, jobs)

    app.store.mark_started = write  # type: ignore[method-assign, assignment]

    @app.task
    async def work() -> None:
        began.set()

    job = await app.enqueue(work)
    await connection.execute(SUSPECT)
    async with worker_of(app, **SIDE_BY_SIDE):
        await asked.wait()
    found = await app.get(job)
    assert (found.state, found.losses, found.failures) == ("ready", 0, 0)
    assert not began.is_set()


REFUSE_MARKS = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON penstock.job
    FOR EACH ROW WHEN (NEW.begun_token IS DISTINCT FROM OLD.begun_token AND NEW.subject = 'bad')
    EXECUTE FUNCTION public.refuse();
"""


@pytest.mark.parametrize("is_item", [False, True], ids=["job", "item"])
async def test_suspect_whose_mark_is_refused_is_put_back(
    app: Penstock,
    connection: asyncpg.Connection,
    is_item: bool,
) -> None:
    begun: list[str | None] = []

    @app.task
    async def work(ctx: Context) -> None:
        begun.append(ctx.job.subject)

    @app.task(batch=Batch(size=3, linger=0.01))
    async def items(items: list[Item[int]]) -> list[None]:
        begun.extend(item.ctx.job.subject for item in items)
        return [None for _ in items]

    def wanted(number: int, subject: str) -> Any:
        if is_item:
            return items.options(subject=subject).prepare(number)
        return work.options(subject=subject).prepare()

    *good, bad = await app.enqueue_many(
        [*(wanted(number, "good") for number in range(4)), wanted(4, "bad")]
    )
    await connection.execute(f"{SUSPECT}; {REFUSE_MARKS}")
    async with worker_of(app, **SIDE_BY_SIDE, parked=0.05):
        for job in good:
            await app.wait(job, timeout=30)
        found = await reaches(app, bad, "scheduled")
        assert (found.reason, found.losses, found.failures) == ("unmarked", 0, 0)
        assert "not this one" in found.errors[-1].message
        assert begun == ["good"] * 4
        await connection.execute("DROP FUNCTION public.refuse CASCADE")
        await app.wait(bad, timeout=30)
    assert begun == ["good"] * 4 + ["bad"]


ALL_SUSPECTS = """
CREATE FUNCTION public.suspect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.suspect = true; RETURN NEW; END $$;
CREATE TRIGGER suspect BEFORE INSERT ON penstock.job
    FOR EACH ROW EXECUTE FUNCTION public.suspect();
"""


async def test_suspects_wait_for_the_right_to_mark_them(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    begun: list[int] = []

    @app.task
    async def work(ctx: Context) -> None:
        begun.append(ctx.attempt)

    right = "EXECUTE ON FUNCTION penstock.mark_started_v1(bigint[], uuid[])"
    await connection.execute(ALL_SUSPECTS)
    async with worker_of(app, **SIDE_BY_SIDE, parked=0.05):
        await connection.execute(f"REVOKE {right} FROM current_user, PUBLIC")
        jobs = await app.enqueue_many(work.prepare() for _ in range(3))
        for job in jobs:
            assert (await reaches(app, job, "scheduled")).reason == "unmarked"
        assert not begun
        await connection.execute(f"GRANT {right} TO current_user")
        for job in jobs:
            await app.wait(job, timeout=30)
