"""schema.sql is the sum of the migrations."""

import asyncio

from penstock.migrate.schema import dump, path
from tests.fixtures.database import Database


async def test_schema_sql_equals_the_sum_of_the_migrations(database: Database) -> None:
    """On every server: it is written with one pg_dump, whatever the server's version."""
    found = await asyncio.to_thread(dump, database.url)
    assert found == path().read_text("utf-8"), "run `make schema`"
