"""A database comes to the schema that is needed, whoever starts and however often."""

import asyncio
import os
import re
from datetime import timedelta

import asyncpg
import pytest

from penstock import sql
from penstock.errors import ConfigError, SchemaMissing, SchemaTooNew, SchemaTooOld
from penstock.migrate import check, migrate, sql_text, status
from penstock.migrate.plan import lock_migrations
from penstock.sql import migrations, quote
from tests.db.engine import Engine
from tests.fixtures.database import Database, connected
from tests.fixtures.later import FIRST
from tests.fixtures.until import until
from tests.rls.seeds import SEEDS, values

ALL = [name for _, name in migrations()]
NEWEST = migrations()[-1][0]
ODD = 'my Schema "odd"'

# All that a schema can hold.
CONTENT = """
SELECT 'relation ' || relname AS thing FROM pg_class WHERE relnamespace = $1::text::regnamespace
UNION ALL
SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE pronamespace = $1::text::regnamespace
UNION ALL
SELECT 'type ' || typname FROM pg_type WHERE typnamespace = $1::text::regnamespace
"""


async def content(connection: asyncpg.Connection, schema: str = "penstock") -> set[str]:
    return {row["thing"] for row in await connection.fetch(CONTENT, quote(schema))}


async def fill(connection: asyncpg.Connection) -> None:
    """A row in every table of the first migration."""
    for table, seed in SEEDS.items():
        if table != "migration":
            await connection.execute(seed.format(**values("a", 1000)))


WAITS_LONGER = """
    SELECT 1 FROM pg_locks
    JOIN pg_database ON pg_database.oid = database AND datname = current_database()
    WHERE NOT granted AND waitstart < clock_timestamp() - $1::interval
"""
LEDGER = {"relation migration", "relation migration_pkey", "type migration", "type _migration"}


async def test_everything_is_applied_to_an_empty_database_once(empty: Database) -> None:
    assert await migrate(empty.url) == ALL
    assert await migrate(empty.url) == []
    async with empty.connect() as connection:
        await check(connection)
        assert await connection.fetchval("SELECT penstock.enqueue('work')") == 1


async def test_ten_processes_that_start_at_once_apply_it_once(empty: Database) -> None:
    applied = await asyncio.gather(*(migrate(empty.url) for _ in range(10)))
    assert sorted(applied) == [[]] * 9 + [ALL]


async def test_concurrent_migrations_apply_once_under_any_isolation(empty: Database) -> None:
    async with empty.connect() as connection:
        await connection.execute(
            f"ALTER DATABASE {empty.name} SET default_transaction_isolation = 'serializable'"
        )
    applied = await asyncio.gather(*(migrate(empty.url) for _ in range(5)))
    assert sorted(applied) == [[]] * 4 + [ALL]


async def test_a_limit_on_statements_does_not_stop_the_wait(empty: Database) -> None:
    async with empty.connect() as other, empty.connect() as watcher:
        for limit in ("statement_timeout", "lock_timeout"):
            await other.execute(f"ALTER DATABASE {empty.name} SET {limit} = '4s'")
        async with asyncio.TaskGroup() as group, other.transaction():
            await lock_migrations(other, "penstock")
            migrating = group.create_task(migrate(empty.url))
            await until(lambda: watcher.fetchval(WAITS_LONGER, timedelta(seconds=4.2)))
        assert migrating.result() == ALL


@pytest.mark.parametrize("number", [1, 2])
async def test_each_migration_has_a_way_back_that_leaves_nothing(
    empty: Database, number: int, later: str
) -> None:
    before = number - 1
    async with empty.connect() as connection:
        await migrate(connection, to=before)
        state = await content(connection) if before else set(LEDGER)
        await migrate(connection, to=number)
        made = await content(connection)
        await connection.execute("SELECT penstock.enqueue('work')")
        await fill(connection)
        [undone] = await migrate(connection, to=before)
        assert undone == (FIRST, later)[before]
        assert await content(connection) == state
        assert await migrate(connection, to=number) == [undone]
        assert await content(connection) == made


# What a function calls, and which tables it names, as far as the newest schema knows them.
NAMED = re.compile(r"\b([a-z_0-9]+)(?= ?\()|\b(?:FROM|JOIN|INTO|UPDATE|ONLY|USING) \"?([a-z_]+)\b")
PARTS = """
SELECT proname AS name, pg_get_functiondef(oid) AS body FROM pg_proc
 WHERE pronamespace = 'penstock'::regnamespace
UNION ALL
SELECT relname, NULL FROM pg_class
 WHERE relnamespace = 'penstock'::regnamespace AND relkind IN ('r', 'p', 'v')
"""


async def parts(connection: asyncpg.Connection) -> tuple[set[str], dict[str, set[str]]]:
    """What a schema has, and what each of its functions names."""
    rows = await connection.fetch(PARTS)
    named = {
        row["name"]: {call or table for call, table in NAMED.findall(row["body"])}
        for row in rows
        if row["body"] is not None
    }
    return {row["name"] for row in rows}, named


async def test_no_migration_leaves_a_function_without_what_it_calls(
    empty: Database, later: str
) -> None:
    async with empty.connect() as connection:
        await migrate(connection)
        known, _ = await parts(connection)
        for number in (2, 1, 2):
            await migrate(connection, to=number)
            there, named = await parts(connection)
            missing = {name: lost for name, used in named.items() if (lost := used & known - there)}
            assert missing == {}, f"at migration {number}"
            assert named


async def test_jobs_are_cancelled_and_fenced_at_the_first_migration(
    empty: Database, later: str
) -> None:
    async with empty.connect() as connection:
        await migrate(connection)
        await migrate(connection, to=1)
        job = await connection.fetchval("SELECT penstock.enqueue('work')")
        cancel = "SELECT answer FROM penstock.cancel_v1(ARRAY[$1::bigint])"
        assert await connection.fetchval(cancel, job) == "cancelled"
        assert await connection.fetchval(cancel, job) == "cancelled"
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute("SELECT penstock.fence_v1($1, gen_random_uuid())", job)
        assert refused.value.sqlstate == "PS003"


async def test_there_and_back_again_with_a_row_in_every_table(empty: Database, later: str) -> None:
    async with empty.connect() as connection:
        await migrate(connection)
        await fill(connection)
        for before, name in ((1, later), (0, FIRST)):
            assert await migrate(connection, to=before) == [name]
            assert await migrate(connection, to=before + 1) == [name]
            await migrate(connection, to=before)


async def test_a_job_lives_its_life_while_a_later_migration_is_due(
    empty: Database, later: str
) -> None:
    """Those who run on meanwhile call its functions."""
    async with empty.connect() as connection:
        assert await migrate(connection, to=1) == [FIRST]
        engine = Engine(connection)
        [job] = await engine.enqueue()
        lease = await engine.lease()
        for state in ("ready", "failed"):
            attempts = await engine.claim(lease)
            assert await engine.settle(attempts, states=state, reasons="x") == {}
        assert await engine.answers("retry_v1", job) == {job: "ready"}
        assert await engine.answers("cancel_v1", job) == {job: "cancelled"}
        assert await engine.answers("delete_v1", job) == {job: "deleted"}
        await engine.value("sweep_v1")
        [again] = await engine.enqueue()
        assert await migrate(connection) == [later]
        assert await engine.answers("cancel_v1", again) == {again: "cancelled"}


async def test_what_is_applied_in_part_is_carried_on_to_the_newest(
    empty: Database, later: str
) -> None:
    assert await migrate(empty.url, to=1) == [FIRST]
    assert await migrate(empty.url, to=1) == []
    assert await migrate(empty.url) == [later]
    assert await migrate(empty.url, to=0) == [later, FIRST]
    assert await migrate(empty.url) == [FIRST, later]


async def test_the_way_back_to_nothing_leaves_only_the_list(empty: Database) -> None:
    async with empty.connect() as connection:
        await migrate(connection)
        assert await migrate(connection, to=0) == ALL[::-1]
        assert await content(connection) == LEDGER
        assert await migrate(connection, to=0) == []


async def test_a_migration_that_fails_leaves_nothing_behind(empty: Database) -> None:
    async with empty.connect() as connection:
        await connection.execute("CREATE SCHEMA penstock; CREATE TABLE penstock.job_all ()")
        before = await content(connection)
        with pytest.raises(asyncpg.DuplicateTableError):
            await migrate(connection)
        assert await content(connection) == before
        await connection.execute("DROP TABLE penstock.job_all")
        assert await migrate(connection) == ALL


async def test_it_can_be_part_of_a_transaction_of_the_caller(empty: Database) -> None:
    async with empty.connect() as connection:
        transaction = connection.transaction(isolation="repeatable_read")
        await transaction.start()
        assert await migrate(connection) == ALL
        await transaction.rollback()
        with pytest.raises(SchemaMissing):
            await check(connection)


async def test_any_name_will_do_for_the_schema_and_two_do_not_meet(empty: Database) -> None:
    assert await migrate(empty.url) == ALL
    assert await migrate(empty.url, schema=ODD) == ALL
    async with empty.connect() as connection:
        await check(connection, ODD)
        odd = quote(ODD)
        assert await connection.fetchval(f"SELECT {odd}.enqueue('work')") == 1
        lease = await connection.fetchval(f"SELECT {odd}.open_lease_v1('worker', 60)")
        [job] = await connection.fetch(
            f"SELECT * FROM {odd}.claim_v1($1, 'default', '{{\"\"}}', '{{0}}', '{{-infinity}}',"
            " '{0}', NULL, 10)",
            lease,
        )
        settle = f"SELECT * FROM {odd}.settle_v1($1, $2)"
        assert await connection.fetch(settle, [job["id"]], [job["token"]]) == []
        assert await connection.fetchval(f"SELECT state FROM {odd}.job_all") == "completed"
        assert await connection.fetchval("SELECT count(*) FROM penstock.job_all") == 0
        assert await migrate(connection, schema=ODD, to=0) == ALL[::-1]
        assert await content(connection, ODD) == LEDGER
        await check(connection, "penstock")


@pytest.mark.parametrize("schema", ["", "x" * 51])
async def test_a_name_that_cannot_name_channels_is_refused(empty: Database, schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        await migrate(empty.url, schema=schema)


@pytest.mark.parametrize("to", [-1, NEWEST + 1])
async def test_a_migration_that_does_not_exist_is_refused(empty: Database, to: int) -> None:
    with pytest.raises(ConfigError, match="at most"):
        await migrate(empty.url, to=to)


async def test_an_ordinary_role_that_may_create_in_the_schema_suffices(
    empty: Database,
) -> None:
    role = f"penstock_plain_{os.getpid()}"
    async with connected(empty.admin_url) as admin:
        await admin.execute(f"CREATE ROLE {role}; CREATE SCHEMA queue AUTHORIZATION {role}")
        try:
            await admin.execute(f"SET SESSION AUTHORIZATION {role}")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await migrate(admin, schema="elsewhere")
            assert await migrate(admin, schema="queue") == ALL
            assert await admin.fetchval("SELECT queue.enqueue('work')") == 1
            assert await admin.fetchval("SELECT queue.ensure_partitions_v1()") == 0
            assert await migrate(admin, schema="queue", to=0) == ALL[::-1]
        finally:
            await admin.execute("RESET SESSION AUTHORIZATION")
            await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


# What is there


async def test_without_tables_the_remedy_is_named(empty: Database) -> None:
    async with empty.connect() as connection:
        with pytest.raises(SchemaMissing, match="penstock migrate"):
            await check(connection)
        await migrate(connection)
        await migrate(connection, to=0)
        with pytest.raises(SchemaMissing, match="penstock migrate"):
            await check(connection)


async def test_an_older_schema_is_to_be_migrated(empty: Database, later: str) -> None:
    async with empty.connect() as connection:
        await migrate(connection, to=1)
        with pytest.raises(SchemaTooOld, match="penstock migrate"):
            await check(connection)
        await migrate(connection)
        await check(connection)


async def test_newer_schema_serves_old_code_while_its_functions_remain(empty: Database) -> None:
    async with empty.connect() as connection:
        await migrate(connection)
        later = "INSERT INTO penstock.migration (number, name) VALUES (9999, '9999_later')"
        await connection.execute(later)
        await check(connection)
        assert await migrate(connection) == []
        await connection.execute("DROP FUNCTION penstock.claim_v1")
        with pytest.raises(SchemaTooNew, match="Upgrade Penstock"):
            await check(connection)
        with pytest.raises(SchemaTooNew):
            await migrate(connection)


async def test_nobody_goes_back_from_a_migration_that_he_does_not_know(empty: Database) -> None:
    async with empty.connect() as connection:
        await migrate(connection)
        await connection.execute("INSERT INTO penstock.migration VALUES (9999, '9999_later')")
        with pytest.raises(SchemaTooNew):
            await migrate(connection, to=0)


async def test_the_status_names_what_was_applied_and_what_is_due(empty: Database) -> None:
    due = await status(empty.url)
    assert [(each.name, each.applied_at) for each in due] == [(name, None) for name in ALL]
    await migrate(empty.url)
    async with empty.connect() as connection:
        await connection.execute("INSERT INTO penstock.migration VALUES (9999, '9999_later')")
        found = await status(connection)
        now = await connection.fetchval("SELECT now()")
    assert [each.name for each in found] == [*ALL, "9999_later"]
    assert [each.known for each in found] == [True] * len(ALL) + [False]
    assert all(each.applied_at and each.applied_at <= now for each in found)


# By hand


async def test_the_script_makes_what_migrate_makes(empty: Database) -> None:
    async with empty.connect() as connection:
        await connection.execute(sql_text(ODD))
        by_hand = await content(connection, ODD)
        await check(connection, ODD)
        assert await migrate(connection, schema=ODD) == []
        await connection.execute(sql_text(ODD, applied=[n for n, _ in migrations()], to=0))
        assert await content(connection, ODD) == LEDGER
        await migrate(connection, schema=ODD)
        assert await content(connection, ODD) == by_hand


async def test_the_script_run_twice_changes_nothing_the_second_time(empty: Database) -> None:
    async with empty.connect() as connection:
        await connection.execute(sql_text())
        before = await content(connection)
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute(sql_text())
        await connection.execute("ROLLBACK")
        assert await content(connection) == before


def test_nothing_is_due_after_all_was_applied() -> None:
    assert sql_text(applied=[n for n, _ in migrations()]) == "-- Nothing is pending.\n"


def test_migrations_have_a_way_back_and_contain_every_function() -> None:
    texts = [sql.migration(name, "up", "penstock") for name in ALL]
    for name in ALL:
        assert sql.migration(name, "down", "penstock")
    for function in sql.functions():
        assert any(f'FUNCTION "penstock".{function}(' in text for text in texts), function
