"""Whether a pooler stands between, and what passes it, is found out and not asked of people."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.store import Pool, connect, hears, lends, open_pool, stands_between
from tests.fixtures.database import Database, connected
from tests.fixtures.pgbouncer import pgbouncer

PREPARED = "SELECT count(*) FROM pg_prepared_statements"


@asynccontextmanager
async def pool_at(url: str) -> AsyncIterator[Pool]:
    async with await open_pool(url, size=2, name="test") as pool:
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
                assert await stands_between(connection) == expected


async def test_only_a_server_that_is_lent_for_a_transaction_hears_nothing(
    database: Database,
) -> None:
    async with session_mode(database) as by_session:
        urls = (database.direct_url, database.url, by_session)
        for url, expected in zip(urls, (False, True, False), strict=True):
            connection = await connect(url, name="test")
            async with pool_at(url) as pool:
                assert await lends(connection, pool) == expected
                assert await hears(connection, pool) != expected
            await connection.close()


async def test_without_an_echo_nothing_is_believed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a server so busy that its lending did not show."""
    monkeypatch.setattr("penstock.store.pooler.LOOKS", 0)
    monkeypatch.setattr("penstock.store.pooler.ECHO_WAIT", 0.3)
    connection = await connect(database.url, name="test")
    async with pool_at(database.url) as pool:
        assert not await hears(connection, pool)
    await connection.close()


async def test_a_pool_prepares_statements_on_direct_connections_alone(database: Database) -> None:
    async with pool_at(database.direct_url) as direct, pool_at(database.url) as pooled:
        for pool, expected in ((direct, True), (pooled, False)):
            for _ in range(3):
                prepared = await pool.fetchval(PREPARED)
            assert bool(prepared) == expected


async def test_a_statement_that_is_given_up_is_cancelled_at_the_server(database: Database) -> None:
    running = "SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'active'"
    endless = "SELECT pg_sleep(60)"
    async with pool_at(database.url) as pool, connected(database.admin_url) as admin:
        with pytest.raises(TimeoutError):
            await pool.execute(endless, timeout=0.2)
        assert await admin.fetchval(running, endless) == 0
