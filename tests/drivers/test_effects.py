"""ctx.fence and ctx.complete in a handler's own transaction, whatever library began it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from penstock import Context, Fixed, Penstock, Workflow
from penstock.errors import StaleAttempt
from penstock.job import AttemptError
from tests.drivers.callers import alchemy_url, django_connection
from tests.fixtures.database import Database
from tests.fixtures.worker import worker_of

INSERT = "INSERT INTO public.ledger VALUES (%(job)s, %(attempt)s)"


@pytest.fixture
async def ledger(connection: asyncpg.Connection) -> asyncpg.Connection:
    await connection.execute("CREATE TABLE public.ledger (job text, attempt integer)")
    return connection


async def entries(ledger: asyncpg.Connection) -> list[tuple[str, int]]:
    rows = await ledger.fetch("SELECT job, attempt FROM public.ledger ORDER BY attempt")
    return [(row["job"], row["attempt"]) for row in rows]


def values(ctx: Context) -> dict[str, Any]:
    return {"job": ctx.job.id, "attempt": ctx.attempt}


# A handler of each library: it writes to the ledger and completes in one transaction, and rolls
# its first attempt back.


def with_async_psycopg(app: Penstock, url: str) -> Any:
    @app.task(retry=Fixed(0.01))
    async def pay(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute(INSERT, values(ctx))
            await ctx.fence(connection)
            await ctx.complete(connection, {"paid": True})
            await (connection.rollback() if ctx.attempt == 1 else connection.commit())

    return pay


def with_psycopg(app: Penstock, url: str) -> Any:
    @app.task(retry=Fixed(0.01))
    def pay(ctx: Context) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(INSERT, values(ctx))
            ctx.sync.fence(connection)
            ctx.sync.complete(connection, {"paid": True})
            _ = connection.rollback() if ctx.attempt == 1 else connection.commit()

    return pay


def with_async_alchemy(app: Penstock, url: str) -> Any:
    @app.task(retry=Fixed(0.01))
    async def pay(ctx: Context) -> None:
        engine = create_async_engine(alchemy_url(url, "asyncpg"))
        async with engine.connect() as connection:
            insert = sqlalchemy.text("INSERT INTO public.ledger VALUES (:job, :attempt)")
            await connection.execute(insert, values(ctx))
            await ctx.fence(connection)
            await ctx.complete(connection, {"paid": True})
            await (connection.rollback() if ctx.attempt == 1 else connection.commit())
        await engine.dispose()

    return pay


def with_alchemy(app: Penstock, url: str) -> Any:
    @app.task(retry=Fixed(0.01))
    def pay(ctx: Context) -> None:
        engine = sqlalchemy.create_engine(alchemy_url(url, "psycopg2"))
        with engine.connect() as connection:
            connection.exec_driver_sql(INSERT, values(ctx))
            ctx.sync.fence(connection)
            ctx.sync.complete(connection, {"paid": True})
            _ = connection.rollback() if ctx.attempt == 1 else connection.commit()
        engine.dispose()

    return pay


@pytest.mark.parametrize(
    "handler", [with_async_psycopg, with_psycopg, with_async_alchemy, with_alchemy]
)
async def test_a_job_is_completed_exactly_with_the_handlers_own_rows(
    handler: Callable[[Penstock, str], Any],
    app: Penstock,
    database: Database,
    ledger: asyncpg.Connection,
) -> None:
    pay = handler(app, database.url)
    async with worker_of(app):
        job = await app.enqueue(pay)
        assert await app.wait(job, timeout=20) == {"paid": True}
    done = await app.get(job)
    assert (done.attempt, done.failures, done.errors[0].type) == (2, 1, "NotCommitted")
    assert await entries(ledger) == [(job.id, 2)]


async def test_fence_refuses_a_sync_handler_that_lost_its_job(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    started, go_on, refused = asyncio.Event(), asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task
    def pay(ctx: Context) -> None:
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        with psycopg.connect(database.url) as connection:
            connection.execute(INSERT, values(ctx))
            try:
                ctx.sync.fence(connection)
            except StaleAttempt:
                loop.call_soon_threadsafe(refused.set)
                raise

    async with worker_of(app, heartbeat=10, lease=60):
        job = await app.enqueue(pay)
        await started.wait()
        await app.cancel(job)
        go_on.set()
        async with asyncio.timeout(60):
            await refused.wait()
    assert await entries(ledger) == []


async def fails(app: Penstock, task: Any) -> AttemptError:
    """Run a task whose only attempt must fail; its error."""
    job = await app.enqueue(task.options(max_attempts=1))
    await worker_of(app).drain(seconds=60)
    failed = await app.get(job)
    assert (failed.state, failed.attempt) == ("failed", 1)
    assert failed.last_error is not None
    return failed.last_error


async def test_a_sync_handler_completes_once(
    app: Penstock, database: Database, ledger: asyncpg.Connection
) -> None:
    @app.task
    def pay(ctx: Context) -> None:
        with psycopg.connect(database.url) as connection:
            connection.execute(INSERT, values(ctx))
            ctx.sync.complete(connection)
            ctx.sync.complete(connection)

    assert "has already completed its job" in (await fails(app, pay)).message
    assert await entries(ledger) == []


@pytest.mark.parametrize("call", ["fence", "complete"])
async def test_sync_handler_that_forgets_ctx_sync_fails(
    app: Penstock, database: Database, ledger: asyncpg.Connection, call: str
) -> None:
    @app.task
    def pay(ctx: Context) -> None:
        with psycopg.connect(database.url) as connection:
            connection.execute(INSERT, values(ctx))
            getattr(ctx, call)(connection)

    error = await fails(app, pay)
    assert (error.type, "in handlers for ctx.sync" in error.message) == ("TypeError", True)
    assert await entries(ledger) == []


# A fence where every statement is committed by itself, in each library.


def with_bare_asyncpg(app: Penstock, url: str) -> Any:
    @app.task
    async def pay(ctx: Context) -> None:
        connection = await asyncpg.connect(url)
        try:
            await ctx.fence(connection)
        finally:
            await connection.close()

    return pay


def with_asyncpg_pool(app: Penstock, url: str) -> Any:
    @app.task
    async def pay(ctx: Context) -> None:
        async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
            await ctx.fence(pool)

    return pay


def with_autocommit_async_psycopg(app: Penstock, url: str) -> Any:
    @app.task
    async def pay(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await ctx.fence(connection)

    return pay


def with_autocommit_psycopg(app: Penstock, url: str) -> Any:
    @app.task
    def pay(ctx: Context) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            ctx.sync.fence(connection)

    return pay


def with_autocommit_async_session(app: Penstock, url: str) -> Any:
    @app.task
    async def pay(ctx: Context) -> None:
        address = alchemy_url(url, "asyncpg")
        engine = create_async_engine(address, isolation_level="AUTOCOMMIT")
        try:
            async with AsyncSession(engine) as session, session.begin():
                await ctx.fence(session)
        finally:
            await engine.dispose()

    return pay


def with_autocommit_alchemy(app: Penstock, url: str) -> Any:
    @app.task
    def pay(ctx: Context) -> None:
        engine = sqlalchemy.create_engine(alchemy_url(url, "psycopg"))
        try:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                ctx.sync.fence(connection)
        finally:
            engine.dispose()

    return pay


def with_autocommit_django(app: Penstock, url: str) -> Any:
    @app.task
    def pay(ctx: Context) -> None:
        with django_connection(url) as connection:
            ctx.sync.fence(connection)

    return pay


@pytest.mark.parametrize(
    "handler",
    [
        with_bare_asyncpg,
        with_asyncpg_pool,
        with_autocommit_async_psycopg,
        with_autocommit_psycopg,
        with_autocommit_async_session,
        with_autocommit_alchemy,
        with_autocommit_django,
    ],
)
async def test_a_fence_outside_a_transaction_is_refused(
    handler: Callable[[Penstock, str], Any], app: Penstock, database: Database
) -> None:
    error = await fails(app, handler(app, database.url))
    assert (error.type, "Begin one first" in error.message) == ("RuntimeError", True)


async def test_fence_holds_in_a_transaction_despite_autocommit(
    app: Penstock, database: Database
) -> None:
    @app.task
    def pay(ctx: Context) -> str:
        with psycopg.connect(database.url, autocommit=True) as one, one.transaction():
            ctx.sync.fence(one)
        with django_connection(database.url) as other:
            other.set_autocommit(False)
            ctx.sync.fence(other)
            other.rollback()
        return "held"

    async with worker_of(app):
        assert await app.wait(await app.enqueue(pay), timeout=20) == "held"


async def test_a_completion_outside_a_transaction_commits_by_itself(
    app: Penstock, database: Database
) -> None:
    @app.task
    async def pay(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(
            database.url, autocommit=True
        ) as connection:
            await ctx.complete(connection, "paid")

    async with worker_of(app):
        assert await app.wait(await app.enqueue(pay), timeout=20) == "paid"


@pytest.mark.parametrize("kind", ["sqlite", "text", "blocking"])
async def test_what_is_no_connection_for_this_call_is_refused(
    kind: str, app: Penstock, database: Database
) -> None:
    given: Any = "postgresql://…"
    engine = sqlalchemy.create_engine("sqlite://")
    if kind == "sqlite":
        given = engine.connect()
    if kind == "blocking":
        given = psycopg.connect(database.url)

    @app.task
    async def nothing() -> None: ...

    try:
        with pytest.raises(TypeError, match=r"app\.sync\.inside|not on sqlite"):
            await app.inside(given).enqueue(nothing)
        if kind == "sqlite":
            with pytest.raises(TypeError, match="not on sqlite"):
                app.sync.inside(given).enqueue(nothing)
    finally:
        if kind != "text":
            given.close()
        engine.dispose()


async def test_an_async_connection_is_refused_where_the_call_blocks(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    with pytest.raises(TypeError, match=r"app\.inside\(…\)"):
        app.sync.inside(connection)


async def test_a_wait_inside_a_transaction_is_refused(app: Penstock, database: Database) -> None:
    @app.task
    async def nothing() -> None: ...

    def wait_inside() -> None:
        with psycopg.connect(database.url) as connection:
            jobs = app.sync.inside(connection)
            flow = Workflow()
            flow.add(nothing.prepare())
            with jobs.batch() as batch:
                job = batch.enqueue(nothing)
                waits = (
                    partial(jobs.wait, job),
                    partial(jobs.wait_batch, batch.id),
                    partial(jobs.wait_workflow, jobs.start_workflow(flow)),
                    partial(jobs.for_tenant("acme").wait, job),
                    batch.wait,
                )
                for wait in waits:
                    with pytest.raises(RuntimeError, match="after the commit"):
                        wait(timeout=5)

    await asyncio.to_thread(wait_inside)
