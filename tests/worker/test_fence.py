"""The fence in the handler's own transaction: effects exactly once."""

import asyncio
import contextlib

import asyncpg
import pytest

from penstock import Context, Fixed, Penstock
from penstock.errors import StaleAttempt
from penstock.telemetry import JobFinished, SettleRefused
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import gathered, reaches, worker_of


@pytest.fixture
async def ledger(connection: asyncpg.Connection) -> asyncpg.Connection:
    """A table of the application's own; the connection looks at it."""
    await connection.execute("CREATE TABLE public.ledger (job text, attempt integer)")
    return connection


async def entries(ledger: asyncpg.Connection) -> list[tuple[str, int]]:
    rows = await ledger.fetch("SELECT job, attempt FROM public.ledger ORDER BY attempt")
    return [(row["job"], row["attempt"]) for row in rows]


async def write(connection: asyncpg.Connection, ctx: Context) -> None:
    await connection.execute("INSERT INTO public.ledger VALUES ($1, $2)", ctx.job.id, ctx.attempt)


async def write_fenced(connection: asyncpg.Connection, ctx: Context) -> None:
    async with connection.transaction():
        await write(connection, ctx)
        await ctx.fence(connection)


async def test_complete_settles_with_the_handlers_own_rows(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    finished = gathered(app, JobFinished)

    @app.task
    async def pay(ctx: Context) -> None:
        async with database.connect() as connection, connection.transaction():
            await write(connection, ctx)
            await ctx.complete(connection, {"paid": True})
            assert (await app.get(ctx.job.id)).state == "running"

    worker = worker_of(app)
    async with worker:
        enqueued = await app.enqueue(pay)
        assert await app.wait(enqueued, timeout=30) == {"paid": True}
        await until(lambda: finished, what="the worker to know")
    job = await app.get(enqueued)
    assert (job.attempt, job.failures, job.errors) == (1, 0, ())
    assert await entries(ledger) == [(enqueued.id, 1)]
    assert (worker.tally.completed, worker.tally.settled, worker.tally.refused) == (1, 1, 0)
    assert [event.state for event in finished] == ["completed"]


async def test_to_complete_is_one_question_to_the_server(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    asked: list[str] = []

    @app.task
    async def pay(ctx: Context) -> None:
        async with database.connect() as connection, connection.transaction():
            with connection.query_logger(lambda record: asked.append(record.query)):
                await ctx.complete(connection, "paid")

    async with worker_of(app):
        assert await app.wait(await app.enqueue(pay), timeout=30) == "paid"
    assert len(asked) == 1


async def test_rolled_back_completion_fails_and_retries(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    @app.task(retry=Fixed(0.01))
    async def pay(ctx: Context) -> None:
        async with database.connect() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await write(connection, ctx)
            await ctx.complete(connection)
            await (transaction.rollback() if ctx.attempt == 1 else transaction.commit())

    worker = worker_of(app)
    async with worker:
        enqueued = await app.enqueue(pay)
        await app.wait(enqueued, timeout=30)
        await until(lambda: worker.tally.settled == 2, what="both attempts to be counted")
    job = await app.get(enqueued)
    assert (job.attempt, job.failures) == (2, 1)
    assert job.errors[0].type == "NotCommitted"
    assert await entries(ledger) == [(enqueued.id, 2)]
    assert (worker.tally.completed, worker.tally.retried) == (1, 1)


async def test_job_stays_completed_if_it_raises_after_its_commit(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    finished = gathered(app, JobFinished)

    @app.task(retry=Fixed(0.01))
    async def pay(ctx: Context) -> None:
        async with database.connect() as connection, connection.transaction():
            await write(connection, ctx)
            await ctx.complete(connection, "paid")
        raise ValueError("after the fact")

    worker = worker_of(app)
    async with worker:
        enqueued = await app.enqueue(pay)
        assert await app.wait(enqueued, timeout=30) == "paid"
        await until(lambda: worker.tally.settled, what="the attempt to be counted")
        assert (await app.get(enqueued)).errors == ()
    assert await entries(ledger) == [(enqueued.id, 1)]
    assert (worker.tally.completed, worker.tally.retried) == (1, 0)
    assert [event.state for event in finished] == ["completed"]


async def test_a_raise_in_the_same_transaction_undoes_the_completion(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    @app.task(retry=Fixed(0.01), max_attempts=2)
    async def pay(ctx: Context) -> None:
        async with database.connect() as connection, connection.transaction():
            await write(connection, ctx)
            await ctx.complete(connection)
            raise ValueError(f"attempt {ctx.attempt}")

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(pay), "failed")
    assert [error.message for error in job.errors] == ["attempt 1", "attempt 2"]
    assert await entries(ledger) == []


async def test_a_stale_attempt_is_refused_and_its_rows_with_it(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    """Another attempt has the job: this one can neither write nor settle."""
    outcome: list[object] = []
    go_on = asyncio.Event()
    refused = gathered(app, SettleRefused)

    @app.task
    async def pay(ctx: Context) -> str:
        if ctx.attempt == 1:
            await go_on.wait()
            async with database.connect() as connection:
                with pytest.raises(StaleAttempt) as caught:
                    await write_fenced(connection, ctx)
                outcome.append(caught.value.attempt)
                # The transaction is over and the connection as good as new.
                assert not connection.is_in_transaction()
                outcome.append(await connection.fetchval("SELECT 1"))
            outcome.append(ctx.cancelled)
        return f"attempt {ctx.attempt}"

    async with worker_of(app):
        enqueued = await app.enqueue(pay)
        await reaches(app, enqueued, "running")
        await ledger.execute(
            "UPDATE penstock.job SET state = 'ready', lease = NULL, token = NULL, losses = 0"
        )
        assert await app.wait(enqueued, timeout=30) == "attempt 2"
        go_on.set()
        await until(lambda: len(outcome) == 3, what="the stale attempt")
    assert outcome == [1, 1, True]
    assert await entries(ledger) == []
    assert (await app.get(enqueued)).result == "attempt 2"
    assert {event.answer for event in refused} <= {"refused"}


@pytest.mark.parametrize("second", ["complete", "fence"])
async def test_nothing_comes_after_complete_in_its_transaction(
    app: Penstock, database: Database, ledger: asyncpg.Connection, second: str
) -> None:
    @app.task(max_attempts=1)
    async def pay(ctx: Context) -> None:
        async with database.connect() as connection, connection.transaction():
            await write(connection, ctx)
            await ctx.complete(connection)
            await getattr(ctx, second)(connection)

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(pay), "failed")
    assert (job.attempt, job.reason, job.last_error.type) == (1, "exhausted", "RuntimeError")
    assert "has already completed its job" in job.last_error.message
    assert await entries(ledger) == []


async def test_a_second_complete_after_the_commit_changes_nothing(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    @app.task(max_attempts=1)
    async def pay(ctx: Context) -> None:
        for result in ("first", "second"):
            async with database.connect() as connection, connection.transaction():
                await write(connection, ctx)
                await ctx.complete(connection, result)

    worker = worker_of(app)
    async with worker:
        enqueued = await app.enqueue(pay)
        assert await app.wait(enqueued, timeout=30) == "first"
        await until(lambda: worker.tally.completed, what="the attempt to be counted")
    assert await entries(ledger) == [(enqueued.id, 1)]


async def test_an_attempt_may_complete_again_after_a_rollback(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    """As a handler does that tries again after a serialization failure."""

    @app.task(max_attempts=1)
    async def pay(ctx: Context) -> None:
        async with database.connect() as connection:
            undone = connection.transaction()
            await undone.start()
            await ctx.complete(connection, "undone")
            await undone.rollback()
            async with connection.transaction():
                await write(connection, ctx)
                await ctx.complete(connection, "done")

    async with worker_of(app):
        enqueued = await app.enqueue(pay)
        assert await app.wait(enqueued, timeout=30) == "done"
    assert await entries(ledger) == [(enqueued.id, 1)]


async def test_fence_that_refuses_the_owner_is_a_failure(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    """As on a connection to another database: without a failure it would run for ever."""
    async with database.connect() as elsewhere:
        await elsewhere.execute("BEGIN")

        @app.task(max_attempts=1)
        async def pay(ctx: Context) -> None:
            await elsewhere.execute("DELETE FROM penstock.job")
            try:
                await ctx.fence(elsewhere)
            finally:
                await elsewhere.execute("ROLLBACK")

        async with worker_of(app):
            job = await reaches(app, await app.enqueue(pay), "failed")
    assert (job.attempt, job.reason) == (1, "exhausted")
    assert job.last_error.type == "penstock.errors.StaleAttempt"


async def test_fenced_job_is_neither_rescued_nor_cancelled(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    fenced, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def pay(ctx: Context) -> str:
        async with database.connect() as connection, connection.transaction():
            await ctx.fence(connection)
            fenced.set()
            await go_on.wait()
            await ctx.complete(connection, f"attempt {ctx.attempt}")
        return "not this"

    async with worker_of(app):
        enqueued = await app.enqueue(pay)
        await fenced.wait()
        cancelling = asyncio.ensure_future(app.cancel(enqueued))
        rescued = await ledger.fetch(
            "SELECT id FROM penstock.rescue_v1(p_now => clock_timestamp() + interval '1 hour')"
        )
        assert rescued == []
        assert not cancelling.done()
        go_on.set()
        assert await app.wait(enqueued, timeout=30) == "attempt 1"
        assert await cancelling is False


async def test_an_idle_fence_does_not_outlive_its_lease(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    """A handler that hangs in its transaction is cut off by Postgres when its lease would end."""
    limits: list[str] = []

    @app.task
    async def pay(ctx: Context) -> None:
        async with database.connect() as connection, connection.transaction():
            await ctx.fence(connection)
            limits.append(
                await connection.fetchval(
                    "SELECT extract(epoch FROM "
                    "current_setting('idle_in_transaction_session_timeout')::interval)::float8"
                )
            )

    async with worker_of(app, lease=20.0, heartbeat=0.5):
        await app.wait(await app.enqueue(pay), timeout=30)
    assert 0 < float(limits[0]) <= 20.0


async def test_hanging_handler_that_ignores_its_fence_is_stopped(
    app: Penstock, database: Database, connection: asyncpg.Connection
) -> None:
    refused, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def stubborn(ctx: Context) -> None:
        await connection.execute("UPDATE penstock.job SET token = gen_random_uuid()")
        async with database.connect() as own, own.transaction():
            with contextlib.suppress(StaleAttempt):
                await ctx.fence(own)
        refused.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    await app.enqueue(stubborn)
    async with asyncio.timeout(60), worker_of(app, finish=0.1, reconcile=60):
        await refused.wait()
    assert stopped.is_set()
