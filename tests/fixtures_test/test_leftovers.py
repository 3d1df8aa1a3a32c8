"""A test that leaves something behind fails and says what."""

import asyncpg
import pytest

from tests.fixtures.database import Database, expect_no_session_left
from tests.fixtures.server import PostgresServer


def outcome_of(pytester: pytest.Pytester, test: str) -> pytest.RunResult:
    """What becomes of a test that runs by itself with our check around it."""
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(f"import asyncio, threading\n\n{test}")
    return pytester.runpytest("-p", "tests.fixtures.leftovers")


@pytest.mark.usefixtures("impatient")
def test_a_task_that_is_left_is_named(pytester: pytest.Pytester):
    test = """
async def test_it():
    asyncio.create_task(asyncio.sleep(60), name="forgotten")
"""
    result = outcome_of(pytester, test)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["The test left behind:", "*Task pending name='forgotten'*"])


@pytest.mark.usefixtures("impatient")
def test_a_thread_that_is_left_is_named(pytester: pytest.Pytester):
    test = """
release = threading.Event()

def test_it():
    threading.Thread(target=release.wait, name="forgotten").start()

def teardown_module():
    release.set()
"""
    result = outcome_of(pytester, test)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["The test left behind:", "*Thread(forgotten, started*"])


def test_what_ends_with_the_test_is_nothing_left(pytester: pytest.Pytester):
    test = """
async def test_it():
    asyncio.create_task(asyncio.sleep(0.05))
    await asyncio.to_thread(lambda: None)
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
    outcome_of(pytester, test).assert_outcomes(passed=1)


def test_a_failed_test_is_not_blamed_twice(pytester: pytest.Pytester):
    test = """
async def test_it():
    asyncio.create_task(asyncio.sleep(60))
    raise AssertionError("the real reason")
"""
    outcome_of(pytester, test).assert_outcomes(failed=1)


@pytest.mark.usefixtures("impatient")
async def test_a_connection_that_is_left_is_named_with_its_locks(
    postgres: PostgresServer, database: Database, connection: asyncpg.Connection
):
    await connection.execute("SET application_name = 'forgetful'")
    await connection.execute("SELECT pg_advisory_lock(7)")
    with pytest.raises(pytest.fail.Exception, match=r"of penstock\S* to forgetful.*\(0, 7\)"):
        await expect_no_session_left(postgres, database)


async def test_each_test_has_a_database_of_its_own_and_no_superuser(connection):
    row = await connection.fetchrow(
        "SELECT current_database() AS name, rolsuper FROM pg_roles WHERE rolname = current_user"
    )
    assert row["name"].startswith("penstock_test_")
    assert row["rolsuper"] is False
