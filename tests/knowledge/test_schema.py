"""The tables and functions of knowledge come with one migration, and go with its way back."""

import re
from pathlib import Path

from penstock import Database as Address
from penstock import Penstock
from penstock.sql import named_statements
from penstock_apps import knowledge
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.sql import call, functions, migration, migrations, statement
from tests.fixtures.database import Database, connected
from tests.guards.catalogue import catalogue

SCHEMA = "penstock_knowledge"
# Its number is put into the name of an index, not sent beside it.
NOT_PREPARED = {"drop_index_concurrently"}


async def test_migrations_back_leave_nothing_and_can_be_applied_again(
    knowledge_database: Database,
) -> None:
    async with connected(knowledge_database.admin_url) as admin:
        before = await catalogue(admin, SCHEMA)
        for _, name in reversed(migrations()):
            await admin.execute(migration(name, "down", SCHEMA, "public"))
        assert await admin.fetchval("SELECT to_regnamespace($1)", SCHEMA) is None

        applied = await Knowledge(Penstock()).migrate(Address.of(knowledge_database.direct_url))
        assert applied == [name for _, name in migrations()]
        assert await catalogue(admin, SCHEMA) == before


async def test_every_function_has_a_file_and_every_file_is_migrated(
    knowledge_database: Database,
) -> None:
    async with connected(knowledge_database.admin_url) as admin:
        rows = await admin.fetch(
            "SELECT proname AS name FROM pg_proc WHERE pronamespace = $1::regnamespace UNION ALL"
            " SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'v'",
            SCHEMA,
        )
    assert sorted(row["name"] for row in rows) == sorted(functions())


def sources() -> str:
    [folder] = knowledge.__path__
    return "\n".join(path.read_text("utf-8") for path in Path(folder).rglob("*.py"))


def test_every_statement_is_asked_for() -> None:
    asked = set(re.findall(r'"([a-z_]+)"', sources()))
    assert named_statements("penstock_apps.knowledge.sql").keys() - asked == set()


async def test_postgres_can_prepare_every_statement_and_call(knowledge_database: Database) -> None:
    names = named_statements("penstock_apps.knowledge.sql").keys() - NOT_PREPARED
    called = set(re.findall(r'_call\("(\w+)"', sources()))
    assert "publish" in called
    async with connected(knowledge_database.url) as connection:
        for text in (
            *(statement(name, SCHEMA) for name in sorted(names)),
            *(call(name, SCHEMA) for name in sorted(called)),
        ):
            await connection.prepare(text)
