"""ctx.fence and ctx.complete in a handler's own transaction, whatever library began it."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from penstock import Context, Fixed, Penstock
from penstock.errors import StaleAttempt
from tests.drivers.callers import alchemy_url
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


async def test_the_fence_refuses_a_sync_handler_whose_job_was_taken_away(
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
        async with asyncio.timeout(10):
            await refused.wait()
    assert await entries(ledger) == []


@pytest.mark.parametrize("kind", ["sqlite", "text", "blocking"])
async def test_what_is_no_connection_for_this_call_is_refused(
    kind: str, app: Penstock, database: Database
) -> None:
    given: Any = "postgresql://…"
    if kind == "sqlite":
        given = sqlalchemy.create_engine("sqlite://").connect()
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
            jobs.wait(jobs.enqueue(nothing))

    with pytest.raises(RuntimeError, match="after the commit"):
        await asyncio.to_thread(wait_inside)
