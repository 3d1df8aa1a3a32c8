"""Many jobs as one: added, closed, watched, called back, cancelled, run again."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from penstock import (
    BatchClosed,
    BatchNotFound,
    BatchTimeout,
    Context,
    NotRetryable,
    PayloadRefused,
    Penstock,
    Task,
)
from penstock.app.sync import SyncBatchHandle
from penstock.errors import ConfigError, TenantMismatch
from penstock.groups import batches
from penstock.tasks.unique import Unique
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

Index = Task[..., Any]


@pytest.fixture
def index(app: Penstock) -> Index:
    """Fails for a negative number until it is mended."""

    @app.task(name="index", max_attempts=1)
    async def index(number: int) -> int:
        if number < 0 and number not in mended:
            raise NotRetryable(f"no page {number}")
        return number

    mended: set[int] = set()
    index.mended = mended  # type: ignore[attr-defined]
    return index


@pytest.fixture
def called(app: Penstock) -> list[tuple[str, int, int]]:
    """What the callbacks saw: the moment, how many completed, how many failed."""
    seen: list[tuple[str, int, int]] = []

    @app.task(name="note")
    async def note(ctx: Context, number: int = 0) -> None:
        status = await app.get_batch(ctx.job)
        seen.append((ctx.job.meta["moment"], status.completed, status.failed))

    return seen


def note(app: Penstock) -> Task[..., Any]:
    return app.tasks.get("note")


async def counts(app: Penstock, batch: Any) -> tuple[int, ...]:
    status = await app.get_batch(batch)
    assert status.pending + status.completed + status.failed + status.cancelled == status.total
    return status.total, status.pending, status.completed, status.failed, status.cancelled


async def test_a_block_opens_a_batch_and_closes_it(
    app: Penstock, index: Index, called: list[Any]
) -> None:
    async with app.batch("import", on_success=note(app), on_end=note(app), meta={"of": 7}) as batch:
        await batch.enqueue(index, 1)
        await batch.enqueue_many(index.prepare(number) for number in (2, 3))
        status = await batch.status()
        assert (status.state, status.total, status.pending, status.done) == ("open", 3, 3, 0)
        assert (status.name, status.meta, status.tenant) == ("import", {"of": 7}, "")
        assert status.eta is None
        with pytest.raises(ConfigError, match="timeout is '10'; it must be a number of seconds"):
            await app.wait_batch(batch.id, timeout="10")  # type: ignore[arg-type]
    assert (await batch.status()).state == "running"
    async with worker_of(app):
        status = await app.wait_batch(batch.id, timeout=30)
        await until(lambda: len(called) == 2)
    assert (status.completed, status.pending, status.running, status.eta) == (3, 0, 0, 0.0)
    assert status.finished_at is not None
    assert sorted(called) == [("end", 3, 0), ("success", 3, 0)]
    jobs = (await app.list(batch=batch)).jobs
    assert [job.batch for job in jobs] == [batch.id] * 3
    end = await app.get(status.end_job or "")
    assert end.meta == {"batch": batch.id, "moment": "end"}
    assert status.success_job != status.end_job


async def test_failure_calls_back_once_and_a_retry_brings_success(
    app: Penstock, index: Index, called: list[Any]
) -> None:
    async with app.batch(on_success=note(app), on_end=note(app), on_failure=note(app)) as batch:
        await batch.enqueue_many(index.prepare(number) for number in (1, -1, -2))
    async with worker_of(app):
        await batch.wait(30)
        await until(lambda: len(called) == 2)
        assert sorted(moment for moment, *_ in called) == ["end", "failure"]
        index.mended.update((-1, -2))  # type: ignore[attr-defined]
        assert (await batch.retry()).number == 2
        await until(lambda: len(called) == 3)
        status = await batch.wait(timedelta(seconds=30))
    assert called[2] == ("success", 3, 0)
    assert (status.completed, status.failed, status.state) == (3, 0, "finished")


async def test_batch_is_cancelled_when_its_block_raises(
    app: Penstock, index: Index, called: list[Any]
) -> None:
    async def slip() -> None:
        async with app.batch(on_success=note(app), on_end=note(app)) as batch:
            job = await batch.enqueue(index, 1)
            await app.wait(job, timeout=30)
            raise ZeroDivisionError

    async with worker_of(app):
        with pytest.raises(ZeroDivisionError):
            await slip()
        [broken] = (await app.batches()).batches
        status = await app.wait_batch(broken, 30)
        await until(lambda: called)
    assert called == [("end", 1, 0)]
    assert (status.success_job, status.cancelled_at is not None) == (None, True)


async def test_cancel_ends_pending_jobs_in_portions(
    app: Penstock, index: Index, called: list[Any]
) -> None:
    batch = await app.open_batch(on_end=note(app), on_success=note(app))
    await batch.enqueue_many(index.options(queue="later").prepare(n) for n in range(1200))
    await batch.enqueue(index, 1)
    async with worker_of(app):
        await until(lambda: _completed(app, batch))
        told = [number async for number in app.cancelling_batch(batch)]
        status = await batch.wait(30)
        await until(lambda: called)
    assert told == [500, 1000, 1200]
    assert (status.total, status.cancelled, status.completed) == (1201, 1200, 1)
    assert [moment for moment, *_ in called] == ["end"]
    assert await batch.cancel() == 0
    with pytest.raises(BatchClosed):
        await batch.enqueue(index, 2)


async def _completed(app: Penstock, batch: Any) -> int:
    return (await app.get_batch(batch)).completed


async def test_another_process_adds_by_the_id_and_closes(app: Penstock, index: Index) -> None:
    batch = await app.open_batch("import")
    async with Penstock(app.url) as elsewhere:
        same = await elsewhere.batch_handle(batch.id)
        await same.enqueue(index, 1)
        await elsewhere.close_batch(batch.id)
    assert await counts(app, batch) == (1, 1, 0, 0, 0)
    with pytest.raises(BatchClosed, match=f"Batch {batch.id} is closed"):
        await batch.enqueue(index, 2)
    assert await counts(app, batch) == (1, 1, 0, 0, 0)


async def test_a_running_job_adds_to_its_own_batch_though_it_is_closed(
    app: Penstock, index: Index, called: list[Any]
) -> None:
    @app.task
    async def split(ctx: Context, pages: int) -> None:
        batch = await app.batch_handle(ctx.job)
        await batch.enqueue_many(index.prepare(page) for page in range(pages))

    async with app.batch(on_success=note(app)) as batch:
        await batch.enqueue(split, 5)
    async with worker_of(app):
        await batch.wait(30)
        await until(lambda: called)
    assert called == [("success", 6, 0)]
    finished = await app.get(next(job.id for job in (await app.list(task=split)).jobs))
    with pytest.raises(BatchClosed):  # it does not run any more
        await (await app.batch_handle(finished)).enqueue(index, 9)


async def test_batch_and_jobs_are_in_a_callers_transaction_or_nowhere(
    app: Penstock, index: Index, database: Database
) -> None:
    async with database.connect() as connection:
        transaction = connection.transaction()
        await transaction.start()
        async with app.inside(connection).batch("import") as batch:
            await batch.enqueue(index, 1)
        await transaction.rollback()
        with pytest.raises(BatchNotFound):
            await app.get_batch(batch.id)
        async with connection.transaction():
            async with app.inside(connection).batch("import") as batch:
                await batch.enqueue(index, 1)
            with pytest.raises(BatchNotFound):
                await app.get_batch(batch.id)
    assert await counts(app, batch) == (1, 1, 0, 0, 0)
    assert [found.name for found in (await app.batches()).batches] == ["import"]


async def test_database_error_inside_a_batch_block_reaches_the_caller(
    app: Penstock, index: Index, database: Database
) -> None:
    async def slip(connection: asyncpg.Connection) -> None:
        async with connection.transaction(), app.inside(connection).batch() as batch:
            await batch.enqueue(index, 1)
            await connection.execute("SELECT 1 / 0")

    async with database.connect() as connection:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await slip(connection)
    assert (await app.batches()).batches == ()


async def test_bulk_goes_in_pieces(
    app: Penstock, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MAX_JOBS_PER_STATEMENT", 3)
    batch = await app.open_batch()
    enqueued = await batch.enqueue_many(index.prepare(number) for number in range(7))
    assert len({each.id for each in enqueued}) == 7
    numbers = [(await app.get(each)).args["number"] for each in enqueued]
    assert numbers == list(range(7))
    assert await counts(app, batch) == (7, 7, 0, 0, 0)


async def test_a_duplicate_by_its_key_is_counted_once(app: Penstock, index: Index) -> None:
    batch = await app.open_batch()
    once = index.options(idempotency_key="page 1")
    first, second = await batch.enqueue(once, 1), await batch.enqueue(once, 1)
    assert (first.id, second.duplicate) == (second.id, True)
    assert await counts(app, batch) == (1, 1, 0, 0, 0)


async def test_jobs_and_callbacks_of_a_batch_get_its_tenant(
    app: Penstock, index: Index, called: list[Any]
) -> None:
    async with app.batch(tenant="acme", on_end=note(app)) as batch:
        job = await batch.enqueue(index, 1)
        with pytest.raises(TenantMismatch):
            await batch.enqueue(index.options(tenant="other"), 2)
    assert (await app.get(job)).tenant == "acme"
    async with worker_of(app):
        status = await batch.wait(30)
    assert (await app.get(status.end_job or "")).tenant == "acme"
    assert [each.id for each in (await app.batches(tenant="acme")).batches] == [batch.id]
    assert (await app.batches(tenant="other")).batches == ()
    ours = await app.for_tenant("acme").open_batch()
    assert ours.tenant == "acme"
    with pytest.raises(TenantMismatch):
        await app.open_batch(tenant="acme", on_end=note(app).options(tenant="other"))


async def test_batches_are_listed_in_pages_by_state_and_name(app: Penstock, index: Index) -> None:
    ids = [(await app.open_batch("a")).id for _ in range(3)]
    async with app.batch("b") as closed:
        await closed.enqueue(index, 1)
    page = await app.batches(limit=2)
    assert [each.id for each in page.batches] == [closed.id, ids[2]]
    page = await app.batches(limit=2, after=page.after)
    assert [each.id for each in page.batches] == [ids[1], ids[0]]
    assert [each.id for each in (await app.batches(state="running")).batches] == [closed.id]
    assert len((await app.batches(state="open", name="a")).batches) == 3
    assert (await app.batches(state="finished")).batches == ()
    with pytest.raises(ConfigError):
        await app.batches(state="closed")  # type: ignore[arg-type]


async def test_the_eta_comes_from_the_rate_and_is_unknown_without_one(
    app: Penstock, index: Index, database: Database
) -> None:
    batch = await app.open_batch()
    await batch.enqueue_many(index.prepare(number) for number in range(100))
    assert (await batch.status()).eta is None
    async with database.connect() as connection:
        await connection.execute("SELECT penstock.fold_v1()")
        await connection.execute(
            "UPDATE penstock.batch SET rate = 10, rate_weight = 1, folded_at = now()"
        )
        status = await batch.status()
        assert status.rate == pytest.approx(10, rel=0.3)
        assert status.eta == pytest.approx(10, rel=0.3)
        await connection.execute(
            "UPDATE penstock.batch SET folded_at = now() - interval '30 s' * ln(2)"
        )
        assert (await batch.status()).eta == pytest.approx(20, rel=0.3)
        for age in ("1 hour", "30 days"):
            await connection.execute(
                f"UPDATE penstock.batch SET folded_at = now() - interval '{age}'"
            )
            assert (await batch.status()).eta is None


async def test_running_jobs_are_counted_among_the_pending(app: Penstock) -> None:
    go = asyncio.Event()

    @app.task
    async def hang() -> None:
        await go.wait()

    async with app.batch() as batch:
        await batch.enqueue_many(hang.prepare() for _ in range(5))
    async with worker_of(app, {"default": 3}):
        status = await until(lambda: _running(app, batch, 3))
        assert (status.pending, status.running) == (5, 3)
        go.set()
        await batch.wait(30)


async def _running(app: Penstock, batch: Any, number: int) -> Any:
    status = await app.get_batch(batch)
    return status if status.running == number else None


async def test_waiting_for_a_batch_ends_with_its_time(app: Penstock, index: Index) -> None:
    batch = await app.open_batch()
    await batch.enqueue(index, 1)
    with pytest.raises(BatchTimeout, match="still open"):
        await batch.wait(0.01)
    await batch.close()
    with pytest.raises(BatchTimeout, match="1 job to go") as caught:
        await batch.wait(0.01)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("given", ["404", "x", "-1", str(2**63)])
async def test_what_is_no_batch_is_not_found(app: Penstock, index: Index, given: str) -> None:
    for call in (app.get_batch, app.batch_handle, app.close_batch, app.cancel_batch):
        with pytest.raises(BatchNotFound, match=f"There is no batch {given}"):
            await call(given)


async def test_a_job_of_no_batch_leads_to_none(app: Penstock, index: Index) -> None:
    job = await app.get(await app.enqueue(index, 1))
    with pytest.raises(ConfigError, match="a job of a batch"):
        await app.get_batch(job)


async def test_unfit_callback_is_refused_when_the_batch_opens(app: Penstock, index: Index) -> None:
    for wrong in (
        index.options(idempotency_key="k").prepare(1),
        index.options(unique=Unique(on_conflict="raise")).prepare(1),
        "index",
    ):
        with pytest.raises(ConfigError):
            await app.open_batch(on_end=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="name"):
        await app.open_batch("")


def test_the_same_calls_block(database: Database) -> None:
    app = Penstock(database.url)

    @app.task(name="index")
    async def index(number: int) -> None: ...

    with app.sync as jobs:
        with jobs.batch("import", on_end=index.prepare(0)) as batch:
            batch.enqueue(index, 1)
            batch.enqueue_many([index.prepare(2)])
        assert (batch.status().total, batch.status().state) == (2, "running")
        same: SyncBatchHandle = jobs.batch_handle(batch.id)
        assert (same.id, same.tenant) == (batch.id, "")
        with pytest.raises(PayloadRefused), jobs.batch() as broken:
            [broken.enqueue(index, each) for each in (3, None)]  # type: ignore[arg-type]
        assert jobs.get_batch(broken.id).cancelled == 1
        assert jobs.cancel_batch(batch.id) == 2
        with psycopg.connect(database.url) as connection:
            inside = jobs.inside(connection)
            with inside.batch() as third:
                third.enqueue(index, 4)
            with pytest.raises(RuntimeError, match="You cannot wait inside your transaction"):
                inside.wait_batch(third.id)
        assert jobs.get_batch(third.id).total == 1
