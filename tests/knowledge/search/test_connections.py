"""The connections to knowledge are bounded in time, as the engine's are."""

import asyncio
from contextlib import suppress

import asyncpg
import pytest

from penstock import Database as Address
from penstock_apps.knowledge.store.tables import TablePool
from tests.fixtures.database import Database


async def test_a_statement_without_an_answer_is_given_up(knowledge_database: Database) -> None:
    database = Address.of(knowledge_database.direct_url, call_timeout=0.2)
    async with asyncio.timeout(60), TablePool.opened(database, 1, statement_s=0.2) as tables:
        async with tables.single_statement() as connection:
            with pytest.raises(TimeoutError):
                await connection.execute("SELECT pg_sleep(3600)")
        async with tables.single_statement() as connection:
            assert await connection.fetchval("SELECT 1") == 1


async def test_closing_does_not_wait_for_a_connection_in_use(knowledge_database: Database) -> None:
    begun = asyncio.Event()

    async def stay(tables: TablePool) -> None:
        async with tables.single_statement():
            begun.set()
            await asyncio.Event().wait()

    database = Address.of(knowledge_database.direct_url)
    async with asyncio.timeout(60):
        async with TablePool.opened(database, 1, close_s=0.2) as tables:
            staying = asyncio.create_task(stay(tables))
            await begun.wait()
        staying.cancel()
        with suppress(asyncio.CancelledError, asyncpg.InterfaceError):
            await staying
