"""Whether a pooler stands between, and what passes it, is found out and not asked of people."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from penstock.store import (
    Pool,
    connect,
    errors,
    is_behind_pooler,
    is_transaction_pooled,
    open_pool,
    receives_notifications,
)
from penstock.store import connection as store_connection
from tests.fixtures.database import Database, connected
from tests.fixtures.pgbouncer import pgbouncer
from tests.fixtures.until import until

PREPARED = "SELECT count(*) FROM pg_prepared_statements"


@asynccontextmanager
async def pool_at(url: str, prepared: bool | None = None) -> AsyncIterator[Pool]:
    async with await open_pool(url, size=2, name="test", prepared=prepared) as pool:
        yield pool


@asynccontextmanager
async def session_mode(database: Database) -> AsyncIterator[str]:
    """The database's address behind another PgBouncer, in session mode."""
    async with pgbouncer(database.direct_url, pool_mode="session") as bouncer:
        yield bouncer.url(database.direct_url)


async def test_a_pooler_is_noticed_in_either_mode(database: Database) -> None:
    async with session_mode(database) as by_session:
        urls = (database.direct_url, database.url, by_session)
        for url, expected in zip(urls, (False, True, True), strict=True):
            async with connected(url) as connection:
                assert await is_behind_pooler(connection) == expected


async def test_only_transaction_pooling_hears_no_notifications(database: Database) -> None:
    async with session_mode(database) as by_session:
        urls = (database.direct_url, database.url, by_session)
        for url, expected in zip(urls, (False, True, False), strict=True):
            connection = await connect(url, name="test")
            async with pool_at(url) as pool:
                assert await is_transaction_pooled(connection, pool) == expected
                assert await receives_notifications(connection, pool) != expected
            await connection.close()


async def test_without_an_echo_nothing_is_believed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a server so busy that its lending did not show."""
    monkeypatch.setattr(store_connection, "POOLER_PROBES", 0)
    monkeypatch.setattr(store_connection, "ECHO_TIMEOUT_S", 0.3)
    connection = await connect(database.url, name="test")
    async with pool_at(database.url) as pool:
        assert not await receives_notifications(connection, pool)
    await connection.close()


async def test_pool_prepares_statements_on_direct_connections_only(database: Database) -> None:
    async with session_mode(database) as by_session:
        for url, told, expected in (
            (database.direct_url, None, True),
            (database.direct_url, False, False),
            (database.url, None, False),
            (by_session, None, False),
            (by_session, True, True),
        ):
            async with pool_at(url, told) as pool:
                await pool.fetchval(PREPARED)
                assert bool(await pool.fetchval(PREPARED)) == expected


async def test_a_statement_that_is_given_up_is_cancelled_at_the_server(database: Database) -> None:
    running = "SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'active'"
    endless = "SELECT pg_sleep(60)"
    async with pool_at(database.url) as pool, connected(database.admin_url) as admin:
        with pytest.raises(TimeoutError):
            await pool.execute(endless, timeout=0.2)
        await until(lambda: has_ended(admin, running, endless), what="the statement to end")


async def has_ended(admin: asyncpg.Connection, running: str, statement: str) -> bool:
    return bool(await admin.fetchval(running, statement) == 0)


async def test_missing_prepared_statement_is_a_passing_error(database: Database) -> None:
    """Else a pooler that is wrongly said to bear them would fail the jobs to settle."""
    careless = await asyncpg.connect(database.url)

    async def ask(times: int) -> None:
        for _ in range(times):
            await careless.fetch("SELECT 1 AS one")

    async with connected(database.url) as other, other.transaction():
        await other.execute("SELECT 1")  # Now there are two servers, to be lent in turn.
        await ask(1)
    with pytest.raises(asyncpg.InvalidSQLStatementNameError) as missing:
        await ask(3)
    assert errors.is_transient(missing.value)
    await careless.close()
