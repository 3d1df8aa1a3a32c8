"""The schema that migrations make is the one that was read and kept."""

from penstock.migrate import migrate
from tests.fixtures.database import Database, connected
from tests.guards.catalogue import added, catalogue, text
from tests.guards.kept import compare
from tests.guards.renames import (
    MERGED,
    knowledge_of_today,
    merged,
    name_of,
    schema_of_today,
    without_layout,
)

ENGINE, KNOWLEDGE = "penstock", "penstock_knowledge"


async def _catalogue(database: Database, schema: str) -> dict[str, list[str]]:
    async with connected(database.admin_url) as connection:
        return await catalogue(connection, schema)


async def test_the_engines_schema_is_as_it_was_kept(database: Database) -> None:
    since = schema_of_today(merged())
    found = text(await _catalogue(database, ENGINE))
    compare("engine.sql", found, since, alike=without_layout)


def test_each_merged_function_has_a_text_of_its_own() -> None:
    assert {name_of(head) for head in merged()} == MERGED


async def test_the_schema_of_knowledge_is_as_it_was_kept(knowledge_database: Database) -> None:
    found = text(await _catalogue(knowledge_database, KNOWLEDGE))
    compare("knowledge.sql", found, knowledge_of_today)


async def test_what_row_level_security_adds_is_as_it_was_kept(
    database: Database, roles: None
) -> None:
    before = await _catalogue(database, ENGINE)
    await migrate(database.direct_url, rls=True)
    after = await _catalogue(database, ENGINE)
    compare("engine_rls.sql", added(before, after), schema_of_today({}))
