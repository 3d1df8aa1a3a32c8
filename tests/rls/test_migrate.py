"""`migrate --rls` and back, again and again, and what later migrations find."""

import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from penstock import sql
from penstock.errors import ConfigError, RolesUnfit
from penstock.migrate import has_rls, migrate, sql_text
from penstock.sql import migrations, quote
from tests.fixtures.database import Database, connected
from tests.migrations.test_migrate_command import no_settings, run
from tests.rls.conftest import ODD, way_in

__all__ = ["no_settings"]

# All that row level security changes: of tables and views, of functions, and who may what.
STATE = """
WITH thing AS (
    SELECT c.oid, c.relname::text AS name,
           c.relrowsecurity::text || coalesce(c.reloptions::text, '') AS how,
           c.relowner AS owner, c.relacl AS rights
      FROM pg_class AS c
     WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S')
    UNION ALL
    SELECT p.oid, p.oid::regprocedure::text, p.prosecdef::text, p.proowner,
           coalesce(p.proacl, acldefault('f', p.proowner))
      FROM pg_proc AS p WHERE p.pronamespace = $1::text::regnamespace
)
SELECT t.name || ' ' || t.how AS it FROM thing AS t
UNION ALL
SELECT t.name || ' ' || r.privilege_type || ' for ' || r.grantee::regrole
  FROM thing AS t CROSS JOIN LATERAL aclexplode(t.rights) AS r WHERE r.grantee <> t.owner
UNION ALL
SELECT t.name || ' policy ' || obj_description(p.oid, 'pg_policy')
  FROM thing AS t JOIN pg_policy AS p ON p.polrelid = t.oid
"""
POLICIES = "SELECT array_agg(oid ORDER BY oid) FROM pg_policy"
PUBLIC_MAY_CALL = """
SELECT p.proname FROM pg_proc AS p
 WHERE p.pronamespace = 'penstock'::regnamespace
   AND has_function_privilege('public', p.oid, 'EXECUTE')
"""
OPEN_TABLES = """
SELECT c.relname FROM pg_class AS c
 WHERE c.relnamespace = 'penstock'::regnamespace AND c.relkind IN ('r', 'p')
   AND NOT c.relrowsecurity
"""

# Where the owner may create no roles, they are there already.
pytestmark = pytest.mark.usefixtures("logins")

PLAIN = f"penstock_plain_{os.getpid()}"


async def state(connection: asyncpg.Connection, schema: str = "penstock") -> set[str]:
    return {row["it"] for row in await connection.fetch(STATE, quote(schema))}


async def test_it_is_switched_on_and_off_and_a_repeat_changes_nothing(database: Database) -> None:
    async with database.connect() as connection:
        off = await state(connection)
        assert not await has_rls(connection)
        assert await migrate(connection, rls=True) == []
        assert await has_rls(connection)
        on, policies = await state(connection), await connection.fetchval(POLICIES)
        assert not on & {each for each in off if "EXECUTE" in each}
        await migrate(connection, rls=True)
        assert await migrate(connection) == []
        assert await state(connection) == on
        assert await connection.fetchval(POLICIES) == policies
        await migrate(connection, rls=False)
        assert not await has_rls(connection)
        assert await state(connection) == off
        await migrate(connection, rls=False)
        await migrate(connection, rls=True)
        assert await state(connection) == on


async def test_what_was_taken_away_or_opened_is_put_right_again(database: Database) -> None:
    async with database.connect() as connection:
        await migrate(connection, rls=True)
        on = await state(connection)
        await connection.execute(
            "DROP POLICY tenant ON penstock.job; CREATE POLICY tenant ON penstock.job USING (true);"
            "CREATE POLICY tenant ON penstock.leader USING (true);"
            "GRANT SELECT ON penstock.lane_setting TO penstock_app, PUBLIC;"
            "ALTER TABLE penstock.step DISABLE ROW LEVEL SECURITY;"
            "ALTER VIEW penstock.job_all RESET (security_invoker);"
            "ALTER FUNCTION penstock.cancel_v1 SECURITY DEFINER;"
            "ALTER FUNCTION penstock.rescue_v1 SECURITY INVOKER;"
            "GRANT EXECUTE ON FUNCTION penstock.rescue_v1 TO PUBLIC"
        )
        await migrate(connection, rls=True)
        assert await state(connection) == on


async def test_a_repeat_waits_for_no_lock_of_a_reader(database: Database) -> None:
    async with database.connect() as connection, database.connect() as reader:
        await migrate(connection, rls=True)
        async with reader.transaction():
            await reader.execute("SELECT FROM penstock.job_all")
            await reader.execute("SELECT FROM penstock.queue, penstock.lease, penstock.progress")
            await connection.execute("SET lock_timeout = '5s'")
            await migrate(connection, rls=True)


async def test_a_later_migration_brings_what_it_adds_under_it(
    database: Database, later: str
) -> None:
    await migrate(database.direct_url, to=1, rls=True)
    async with database.connect() as connection:
        assert await migrate(connection) == [later]
        assert await connection.fetch(OPEN_TABLES) == []
        assert await connection.fetch(PUBLIC_MAY_CALL) == []
        is_workers = "SELECT has_function_privilege('penstock_worker', $1::regproc, 'EXECUTE')"
        assert await connection.fetchval(is_workers, "penstock.fence_v2")
        assert not await connection.fetchval(is_workers, "penstock.later_v1")
        await migrate(connection, to=1)
        assert await has_rls(connection)
        assert await connection.fetch(PUBLIC_MAY_CALL) == []


@pytest.mark.parametrize("to", [1, 2])
async def test_the_way_back_and_forth_keeps_it(database: Database, to: int, later: str) -> None:
    async with database.connect() as connection:
        await migrate(connection, rls=True)
        before = await state(connection)
        await migrate(connection, to=to)
        assert await has_rls(connection)
        assert await connection.fetch(OPEN_TABLES) == []
        assert await connection.fetch(PUBLIC_MAY_CALL) == []
        await migrate(connection)
        assert await state(connection) == before


async def test_all_the_way_back_nothing_of_it_is_left(database: Database) -> None:
    async with database.connect() as connection:
        await migrate(connection, rls=True)
        await migrate(connection, to=0)
        assert await state(connection) == {"migration false"}
        await migrate(connection)
        assert not await has_rls(connection)


async def test_the_script_does_what_the_command_does(database: Database) -> None:
    applied = [number for number, _ in migrations()]
    async with database.connect() as connection:
        await connection.execute(sql_text(applied=applied, rls=True))
        by_hand = await state(connection)
        await migrate(connection, rls=True)
        assert await state(connection) == by_hand
        assert sql_text(applied=applied, has_rls=True) == "-- Nothing is pending.\n"
        await connection.execute(sql_text(applied=applied, rls=False, has_rls=True))
        assert not await has_rls(connection)


async def test_the_script_of_a_later_migration_keeps_it(later: str) -> None:
    assert "penstock_app" in sql_text(applied=[1], has_rls=True)
    assert "penstock_app" not in sql_text(applied=[1])


async def test_two_schemas_have_roles_of_their_own(database: Database) -> None:
    async with database.connect() as connection:
        await migrate(connection, rls=True)
        await migrate(connection, schema=ODD, rls=True)
        for mine, others in (("penstock", ODD), (ODD, "penstock")):
            for role in sql.roles(mine):
                sees = (
                    "SELECT has_schema_privilege($1::text, quote_ident($2)::regnamespace, 'USAGE')"
                )
                assert await connection.fetchval(sees, role, mine)
                assert not await connection.fetchval(sees, role, others)


async def test_a_schema_that_others_share_is_refused(database: Database) -> None:
    with pytest.raises(ConfigError, match="that only the queue uses"):
        await migrate(database.direct_url, schema="public", rls=True)


# Roles


@pytest.fixture
async def plain(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A role that owns a schema and may create no roles."""
    async with connected(database.admin_url) as admin:
        await admin.execute(
            f"CREATE ROLE {PLAIN} LOGIN; CREATE SCHEMA {PLAIN} AUTHORIZATION {PLAIN}"
        )
        try:
            await admin.execute(f"SET SESSION AUTHORIZATION {PLAIN}")
            yield admin
        finally:
            await admin.execute("RESET SESSION AUTHORIZATION")
            await admin.execute(
                f"DROP OWNED BY {PLAIN}; DROP ROLE {PLAIN};"
                f"DROP ROLE IF EXISTS {PLAIN}_worker, {PLAIN}_app"
            )


async def test_migrate_without_createrole_says_what_an_admin_must_run(
    plain: asyncpg.Connection,
) -> None:
    await migrate(plain, schema=PLAIN)
    with pytest.raises(RolesUnfit, match="may not create roles") as refused:
        await migrate(plain, schema=PLAIN, rls=True)
    assert refused.value.remedy in str(refused.value)
    await plain.execute("RESET SESSION AUTHORIZATION")
    await plain.execute(refused.value.remedy)
    await plain.execute(f"SET SESSION AUTHORIZATION {PLAIN}")
    await migrate(plain, schema=PLAIN, rls=True)
    assert await has_rls(plain, schema=PLAIN)


async def test_a_role_that_would_see_past_the_policies_is_refused(
    plain: asyncpg.Connection,
) -> None:
    async def as_administrator(statement: str) -> None:
        await plain.execute("RESET SESSION AUTHORIZATION")
        await plain.execute(statement)
        await plain.execute(f"SET SESSION AUTHORIZATION {PLAIN}")

    await as_administrator(f"CREATE ROLE {PLAIN}_worker; CREATE ROLE {PLAIN}_app")
    await migrate(plain, schema=PLAIN)
    for too_much in (
        f"ALTER ROLE {PLAIN}_app SUPERUSER",
        f"ALTER ROLE {PLAIN}_app BYPASSRLS",
        f"GRANT {PLAIN} TO {PLAIN}_app",
    ):
        await as_administrator(too_much)
        with pytest.raises(RolesUnfit, match="would not hold for it") as refused:
            await migrate(plain, schema=PLAIN, rls=True)
        await as_administrator(refused.value.remedy)
    await migrate(plain, schema=PLAIN, rls=True)


# At the terminal


async def test_the_command_switches_it_and_shows_it(database: Database) -> None:
    async def told(*arguments: str) -> Any:
        done = await run("--database-url", database.direct_url, *arguments)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    assert "row level" not in await told("--status")
    assert (await told("--rls")).endswith("up to date. Row level security is on.\n")
    assert (await told("--status")).endswith("row level security  on\n")
    assert '"rls":true' in await told("--json")
    assert (await told("--sql")) == "-- Nothing is pending.\n"
    assert "ROW LEVEL SECURITY" in await told("--sql", "--rls")
    assert (await told("--no-rls")).endswith("Row level security is off.\n")
    assert "row level" not in await told("--status")


async def test_the_command_says_what_an_administrator_must_run(
    database: Database, plain: asyncpg.Connection
) -> None:
    url = await way_in(database, PLAIN)
    refused = await run("--database-url", url, "--schema", PLAIN, "--rls")
    assert refused.exit_code == 1
    assert f"CREATE ROLE {PLAIN}_worker NOLOGIN; CREATE ROLE {PLAIN}_app NOLOGIN;" in refused.stderr
