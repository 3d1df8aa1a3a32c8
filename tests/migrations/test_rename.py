"""A schema that somebody has renamed."""

import asyncpg
import pytest

from penstock import Penstock, SchemaRenamed
from penstock.migrate import migrate
from tests.doctor.examined import ERROR, OK, Examined
from tests.fixtures.database import Database
from tests.fixtures.worker import worker_of


@pytest.mark.parametrize("name", ["jobs", 'my "jobs"'])
async def test_a_renamed_schema_is_told_and_mended_by_migrating(
    database: Database, connection: asyncpg.Connection, name: str
) -> None:
    quoted = name.replace('"', '""')
    await connection.execute(f'ALTER SCHEMA penstock RENAME TO "{quoted}"')
    app = Penstock(database.url, schema=name)

    @app.task
    async def greet() -> str:
        return "hello"

    with pytest.raises(SchemaRenamed) as told:
        await app.enqueue(greet)
    assert "Run" in str(told.value)
    [finding] = await Examined(database.url)("schema", schema=name)
    assert finding.verdict is ERROR
    assert "was renamed" in finding.seen

    assert await migrate(database.url, schema=name) == ["the rename from penstock"]
    assert await migrate(database.url, schema=name) == []
    async with app:
        job = await app.enqueue(greet)
        await worker_of(app).drain()
        assert await app.wait(job) == "hello"
    [finding] = await Examined(database.url)("schema", schema=name)
    assert finding.verdict is OK, finding
    former = await connection.fetch(
        "SELECT proname FROM pg_proc "
        "WHERE pronamespace = to_regnamespace(quote_ident($1)) "
        "AND (prosrc ~ '\"?penstock\"?\\.\"?[a-z]' AND prosrc !~ 'penstock\\.(tenant|dispatch)' "
        "OR proconfig::text ~ 'penstock')",
        name,
    )
    assert not former
    await connection.execute(f'ALTER SCHEMA "{quoted}" RENAME TO penstock')
    assert await migrate(database.url) != []
    assert await migrate(database.url, to=0) != []
