"""A project's own tests, on the test database that Django makes."""

from collections.abc import AsyncIterator

import pytest

from tests.django.manage import manage
from tests.fixtures.database import Database, connected
from tests.fixtures.server import PostgresServer

DRAINED = ("test", "tests.django.bakery", "-p", "drained.py", "--no-input")
TESTS = ("test", "tests.django.bakery", "-p", "by_django.py", "--no-input", "-v", "2")


@pytest.fixture
async def kept(postgres: PostgresServer, database: Database) -> AsyncIterator[Database]:
    """A database whose test database is dropped in the end, though Django keeps it."""
    yield database
    async with connected(postgres.admin_url) as admin:
        await admin.execute(f"DROP DATABASE IF EXISTS test_{database.name} WITH (FORCE)")


def test_runner_migrates_its_database_and_isolates_jobs(kept: Database) -> None:
    first = manage(kept.admin_url, *TESTS, "--keepdb")
    assert "Applying penstock.0001_penstock... OK" in first.stdout
    assert "Ran 3 tests" in first.stderr
    again = manage(kept.admin_url, *TESTS, "--keepdb")
    assert "Applying penstock" not in again.stdout
    assert "Ran 3 tests" in again.stderr


@pytest.mark.parametrize("age", ["0", "600"])
def test_tests_run_the_jobs_and_the_test_database_can_be_dropped(
    kept: Database, monkeypatch: pytest.MonkeyPatch, age: str
) -> None:
    monkeypatch.setenv("BAKERY_CONN_MAX_AGE", age)
    ended = manage(kept.admin_url, *DRAINED)
    assert "Ran 4 tests" in ended.stderr
    assert "Destroying test database" in ended.stderr
