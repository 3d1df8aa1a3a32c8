"""`manage.py migrate` brings Penstock's schema, and takes it away."""

import io
from collections.abc import AsyncIterator

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test import override_settings

from penstock import sql
from tests.django.conftest import Use
from tests.fixtures.database import Database, create, drop
from tests.fixtures.later import FIRST, later
from tests.fixtures.server import PostgresServer

__all__ = ["later"]

SCHEMAS = "SELECT array_agg(nspname ORDER BY nspname) FROM pg_namespace WHERE nspname LIKE 'pen%'"
APPLIED = "SELECT array_agg(number ORDER BY number) FROM penstock.migration"
LATER = override_settings(MIGRATION_MODULES={"penstock": "tests.django.later"})


@pytest.fixture
async def empty(postgres: PostgresServer) -> AsyncIterator[Database]:
    """A database without tables."""
    database = await create(postgres, source="template1")
    yield database
    await drop(postgres, database)


def asked(query: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def migrate(*arguments: str) -> str:
    said = io.StringIO()
    call_command("migrate", *arguments, stdout=said, no_color=True)
    return said.getvalue()


def test_there_is_one_migration_for_each_of_penstocks() -> None:
    ours = {name for app, name in MigrationLoader(None).disk_migrations if app == "penstock"}
    assert ours == {name for _, name in sql.migrations()}


def test_the_schema_comes_with_the_projects_own_tables(empty: Database, use: Use) -> None:
    use(empty.url)
    assert "Applying penstock.0001_penstock... OK" in migrate()
    assert asked(SCHEMAS) == ["penstock"]
    assert asked(APPLIED) == [number for number, _ in sql.migrations()]
    assert "No migrations to apply" in migrate()


def test_the_schema_goes_when_it_is_taken_back(empty: Database, use: Use) -> None:
    use(empty.url)
    migrate()
    migrate("penstock", "zero")
    assert asked("SELECT to_regclass('penstock.job')") is None
    migrate()
    assert asked("SELECT count(*) FROM penstock.job") == 0


def test_a_schema_that_is_there_already_is_left_alone(database: Database, use: Use) -> None:
    use(database.url)
    assert "Applying penstock.0001_penstock... OK" in migrate()
    assert asked(APPLIED) == [number for number, _ in sql.migrations()]


def test_the_schema_may_have_another_name(empty: Database, use: Use) -> None:
    use(empty.url)
    with override_settings(PENSTOCK={"SCHEMA": "pen stock"}):
        migrate()
    assert asked(SCHEMAS) == ["pen stock"]


def test_other_databases_of_the_project_get_no_schema(empty: Database, use: Use) -> None:
    use(empty.url)
    with override_settings(PENSTOCK={"DATABASE": "lite"}):
        migrate()
    assert asked(SCHEMAS) is None


def test_the_sql_can_be_looked_at_first(empty: Database, use: Use) -> None:
    use(empty.url)
    forwards, backwards = io.StringIO(), io.StringIO()
    call_command("sqlmigrate", "penstock", "0001", stdout=forwards)
    call_command("sqlmigrate", "penstock", "0001", backwards=True, stdout=backwards)
    assert 'CREATE SCHEMA IF NOT EXISTS "penstock"' in forwards.getvalue()
    assert 'CREATE TABLE "penstock".job (' in forwards.getvalue()
    assert 'DELETE FROM "penstock".migration WHERE number = 1' in backwards.getvalue()
    assert asked(SCHEMAS) is None


def test_migrations_go_one_by_one_forwards_and_back(empty: Database, use: Use, later: str) -> None:
    use(empty.url)
    with LATER:
        migrate("penstock", FIRST)
        assert asked(APPLIED) == [1]
        for _ in range(2):
            assert f"Applying penstock.{later}... OK" in migrate("penstock")
            assert asked(APPLIED) == [1, 2]
            assert f"Unapplying penstock.{later}... OK" in migrate("penstock", FIRST)
            assert asked(APPLIED) == [1]
        migrate("penstock")
        migrate("penstock", "zero")
    assert asked(APPLIED) is None


def test_migrations_that_penstock_has_applied_are_left_alone(
    empty: Database, use: Use, later: str
) -> None:
    use(empty.url)
    call_command("penstock", "migrate")
    with LATER:
        assert f"Applying penstock.{FIRST}... OK" in migrate("penstock", FIRST)
        assert asked(APPLIED) == [1, 2]
        migrate()
        call_command("penstock", "migrate", "--to", "1", "--yes")
        migrate("penstock", FIRST)
    assert asked(APPLIED) == [1]


def test_sqlmigrate_shows_the_sql_of_one_migration(empty: Database, use: Use, later: str) -> None:
    use(empty.url)
    forwards, backwards = io.StringIO(), io.StringIO()
    with LATER:
        call_command("sqlmigrate", "penstock", later, stdout=forwards)
        call_command("sqlmigrate", "penstock", later, backwards=True, stdout=backwards)
    assert 'CREATE TABLE "penstock".later (' in forwards.getvalue()
    assert "CREATE SCHEMA" not in forwards.getvalue()
    assert 'CREATE TABLE "penstock".job (' not in forwards.getvalue()
    assert 'DROP TABLE "penstock".later;' in backwards.getvalue()
    assert "migration WHERE number = 1;" not in backwards.getvalue()


def test_there_is_nothing_for_makemigrations_to_make(empty: Database, use: Use) -> None:
    use(empty.url)
    call_command("makemigrations", "penstock", check_changes=True, dry_run=True, verbosity=0)
