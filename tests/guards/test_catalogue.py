"""The schema that migrations make is the one that was read and kept."""

from penstock.migrate import migrate
from tests.fixtures.database import Database, connected
from tests.guards.catalogue import added, catalogue, text
from tests.guards.kept import compare

ENGINE, KNOWLEDGE = "penstock", "penstock_knowledge"


async def _catalogue(database: Database, schema: str) -> dict[str, list[str]]:
    async with connected(database.admin_url) as connection:
        return await catalogue(connection, schema)


async def test_the_engines_schema_is_as_it_was_kept(database: Database) -> None:
    compare("engine.sql", text(await _catalogue(database, ENGINE)))


async def test_the_schema_of_knowledge_is_as_it_was_kept(knowledge_database: Database) -> None:
    compare("knowledge.sql", text(await _catalogue(knowledge_database, KNOWLEDGE)))


async def test_what_row_level_security_adds_is_as_it_was_kept(
    database: Database, roles: None
) -> None:
    before = await _catalogue(database, ENGINE)
    await migrate(database.direct_url, rls=True)
    compare("engine_rls.sql", added(before, await _catalogue(database, ENGINE)))
