"""Snapshots, bloat and partitions, healthy and ill."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date

import asyncpg
import pytest

from penstock.doctor import Finding
from tests.doctor.examined import ERROR, OK, SKIPPED, WARNING, Examined, paste
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until

# Snapshots


@asynccontextmanager
async def report_running(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Somebody's report: a transaction that keeps its snapshot."""
    async with connected(database.url) as reader:
        await reader.execute("SET application_name = 'monthly report'")
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await reader.execute("SELECT 1 AS revenue")
        yield reader


async def nothing_held_back(examined: Examined) -> None:
    """To one who minds even a moment's transaction, the server's own are some, now and then."""

    async def is_fine() -> bool:
        return [each.verdict for each in await examined("snapshots", snapshot_warning=0)] == [OK]

    await until(is_fine, what="no transaction to hold back vacuum")


async def test_no_transaction_holds_back_vacuum(examined: Examined) -> None:
    await nothing_held_back(examined)


async def test_long_transaction_is_named_with_its_process_and_query(
    database: Database, connection: asyncpg.Connection, examined: Examined
) -> None:
    async with report_running(database) as reader:
        [finding] = await examined("snapshots")
        assert finding.verdict is OK, "it has only just begun"
        [finding] = await examined("snapshots", snapshot_warning=0)
        assert finding.verdict is WARNING
        [finding] = await examined("snapshots", snapshot_warning=0, snapshot_error=0)
        assert finding.verdict is ERROR
        for word in ("monthly report", "idle in transaction", "SELECT 1 AS revenue"):
            assert word in finding.seen
        await paste(connection, finding)
        await until(reader.is_closed, what="the transaction to be ended")
    await nothing_held_back(examined)


async def test_open_transaction_without_a_snapshot_is_fine(
    database: Database, examined: Examined
) -> None:
    async with connected(database.url) as reader:
        await reader.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        await reader.execute("SELECT 1")
        await nothing_held_back(examined)


async def test_sessions_that_the_role_does_not_see_into_are_counted(
    database: Database, examined: Examined
) -> None:
    async with connected(database.admin_url):
        [hidden, finding] = await examined("snapshots")
    assert (hidden.verdict, finding.verdict) == (SKIPPED, OK)
    assert "1 session" in hidden.seen
    assert "GRANT pg_read_all_stats" in hidden.paste[0]


@asynccontextmanager
async def autovacuum_running(database: Database) -> AsyncIterator[None]:
    """A process of the server's own, at a table whose index it cannot read until this ends."""
    async with connected(database.admin_url) as admin:
        await admin.execute("SELECT pg_advisory_lock(1)")
        await admin.execute(HELD_TABLE)
        await admin.execute("ALTER SYSTEM SET autovacuum_naptime = 1")
        await admin.execute("SELECT pg_reload_conf(), pg_stat_force_next_flush()")
        try:
            await until(lambda: admin.fetchval(IS_VACUUMING), 60, what="autovacuum to begin")
            yield
        finally:
            await admin.execute("ALTER SYSTEM RESET autovacuum_naptime")
            await admin.execute("SELECT pg_reload_conf()")


HELD_TABLE = """
CREATE FUNCTION public.held(number integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN number; END $$;
CREATE TABLE public.held_table (number integer);
CREATE INDEX ON public.held_table (public.held(number));
ALTER TABLE public.held_table SET (autovacuum_analyze_threshold = 1);
INSERT INTO public.held_table SELECT generate_series(1, 100);
"""
IS_VACUUMING = """
SELECT EXISTS (SELECT FROM pg_stat_activity
                WHERE datname = current_database() AND backend_type = 'autovacuum worker'
                  AND wait_event_type = 'Lock')
"""


async def test_a_process_of_the_servers_own_is_no_session(
    database: Database, examined: Examined
) -> None:
    async with autovacuum_running(database):
        [hidden, _] = await examined("snapshots")
    assert "1 session " in hidden.seen, "that of the owner, who made it"


# Bloat


async def filled(connection: asyncpg.Connection, rows: int) -> None:
    await connection.execute(
        "INSERT INTO penstock.job (state, ready_at, task) "
        "SELECT 'ready', now(), 'work' FROM generate_series(1, $1)",
        rows,
    )
    await connection.execute("SELECT pg_stat_force_next_flush()")
    await connection.execute("ANALYZE penstock.job")


async def told(connection: asyncpg.Connection, examined: Examined, **limits: int) -> list[Finding]:
    """What the check finds once this connection has told the server's statistics what it did."""
    await connection.execute("SELECT pg_stat_force_next_flush()")
    return list(await examined("bloat", **limits))


async def test_dead_rows_are_reported_until_they_are_vacuumed(
    database: Database, connection: asyncpg.Connection, examined: Examined
) -> None:
    await filled(connection, 2000)
    [finding] = await examined("bloat", dead_rows=1000)
    assert finding.verdict is OK
    async with report_running(database):
        await connection.execute("DELETE FROM penstock.job")
        [finding] = await told(connection, examined, dead_rows=1000)
        assert finding.verdict is WARNING
        assert "2,000 dead rows" in finding.seen
        await paste(connection, finding)
        [finding] = await told(connection, examined, dead_rows=1000)
        assert finding.verdict is WARNING, "the report still holds them"
    await paste(connection, finding)
    [finding] = await told(connection, examined, dead_rows=1000)
    assert finding.verdict is OK
    assert "ago" in finding.seen


async def test_bloat_is_reported_with_commands_that_remove_it(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    limits = {"bloat_bytes": 200_000, "dead_rows": 10**9}
    await filled(connection, 20_000)
    [finding] = await told(connection, examined, **limits)
    assert finding.verdict is OK
    await connection.execute("DELETE FROM penstock.job WHERE id % 100 <> 0")
    await connection.execute("VACUUM (ANALYZE) penstock.job")
    findings = await told(connection, examined, **limits)
    assert {finding.seen.split(" takes ")[0] for finding in findings} == {
        "The table job",
        "The index job_pkey",
        "The index job_ready",
    }
    for finding in findings:
        await paste(connection, finding)
    [finding] = await told(connection, examined, **limits)
    assert finding.verdict is OK


async def test_a_table_that_autovacuum_leaves_alone_is_an_error(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute("ALTER TABLE penstock.job SET (autovacuum_enabled = off)")
    [finding] = await examined("bloat")
    assert finding.verdict is ERROR
    await paste(connection, finding)
    [finding] = await examined("bloat")
    assert finding.verdict is OK


# Partitions


async def day(connection: asyncpg.Connection, ahead: int) -> date:
    """A day from today on, as the database has it."""
    found: date = await connection.fetchval(
        "SELECT (now() AT TIME ZONE 'UTC')::date + $1::integer", ahead
    )
    return found


async def drop_partitions(connection: asyncpg.Connection, since: date, until: date) -> None:
    names = await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits JOIN pg_class ON oid = inhrelid "
        "WHERE inhparent = 'penstock.job_history'::regclass AND relname >= $1 AND relname < $2",
        f"job_history_{since:%Y%m%d}",
        f"job_history_{until:%Y%m%d}",
    )
    for name in names:
        await connection.execute(f"DROP TABLE {name['name']}")


async def test_partitions_a_week_ahead_are_enough(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    # Since the tests began it may have become another day.
    await connection.execute("SELECT penstock.ensure_partitions_v1()")
    [finding] = await examined("partitions")
    assert finding.verdict is OK
    assert "7 days ahead" in finding.seen


@pytest.mark.parametrize(
    ("ahead", "verdict", "word"),
    [
        (0, ERROR, "cannot end now"),
        (1, ERROR, "from tomorrow on"),
        (2, ERROR, "in 2 days"),
        (3, WARNING, "in 3 days"),
        (4, WARNING, "in 4 days"),
        (5, OK, "4 days ahead"),
    ],
)
async def test_too_few_partitions_are_told_and_can_be_made(
    connection: asyncpg.Connection, examined: Examined, ahead: int, verdict: object, word: str
) -> None:
    # What completes today is kept for 7 days after today; what fails stays until a Monday far on.
    await drop_partitions(connection, await day(connection, 8 + ahead), await day(connection, 30))
    [finding] = await examined("partitions")
    assert finding.verdict is verdict
    assert word in finding.seen
    if verdict is not OK:
        await paste(connection, finding)
        [finding] = await examined("partitions")
        assert finding.verdict is OK


async def test_a_partition_missing_in_the_middle_counts(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    missing = await day(connection, 9)
    await connection.execute(f"DROP TABLE penstock.job_history_{missing:%Y%m%d}")
    [finding] = await examined("partitions")
    assert finding.verdict is ERROR
    assert f"no partition for {missing}: from tomorrow on jobs that are kept for 7 days" in (
        finding.seen
    )


async def test_detached_partition_is_reported_with_its_attach_command(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    apart = await day(connection, 8)
    await connection.execute(
        f"ALTER TABLE penstock.job_history DETACH PARTITION penstock.job_history_{apart:%Y%m%d}"
    )
    [finding] = await examined("partitions")
    assert finding.verdict is ERROR
    assert "ATTACH PARTITION" in finding.paste[0]
    await paste(connection, finding)
    [finding] = await examined("partitions")
    assert finding.verdict is OK


async def test_partition_of_another_table_is_reported_with_its_remedy(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    table = f"penstock.job_history_{await day(connection, 8):%Y%m%d}"
    await connection.execute(
        f"ALTER TABLE penstock.job_history DETACH PARTITION {table};"
        "CREATE TABLE penstock.archive (LIKE penstock.job_history) PARTITION BY LIST (expires_on);"
        f"ALTER TABLE penstock.archive ATTACH PARTITION {table} DEFAULT"
    )
    [finding] = await examined("partitions")
    assert finding.verdict is ERROR
    assert "a partition of penstock.archive" in finding.remedy
    await paste(connection, finding)
    [finding] = await examined("partitions")
    assert finding.verdict is OK


async def test_a_longer_retention_needs_partitions_further_ahead(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute("INSERT INTO penstock.retention (state, days) VALUES ('failed', 90)")
    [finding] = await examined("partitions")
    assert finding.verdict is OK, "they come with it"
    await drop_partitions(connection, await day(connection, 60), await day(connection, 400))
    [finding] = await examined("partitions")
    assert finding.verdict is ERROR
    assert "kept for 90 days" in finding.seen


async def test_a_partition_kept_beyond_its_day_can_be_taken_away(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    [finding] = await examined("expired-partitions")
    assert finding.verdict is OK
    await connection.execute(
        "CREATE TABLE penstock.job_history_20200229 PARTITION OF penstock.job_history "
        "FOR VALUES FROM ('2020-02-29') TO ('2020-03-01')"
    )
    [finding] = await examined("expired-partitions")
    assert finding.verdict is WARNING
    assert "job_history_20200229" in finding.seen
    await paste(connection, finding)
    [finding] = await examined("expired-partitions")
    assert finding.verdict is OK


async def test_a_partition_of_yesterday_is_still_the_leaders_to_drop(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    yesterday, today = await day(connection, -1), await day(connection, 0)
    await connection.execute(
        f"CREATE TABLE IF NOT EXISTS penstock.job_history_{yesterday:%Y%m%d} "
        "PARTITION OF penstock.job_history "
        f"FOR VALUES FROM ('{yesterday}') TO ('{today}')"
    )
    [finding] = await examined("expired-partitions")
    assert finding.verdict is OK


async def test_few_partitions_leave_room_for_all_who_read_the_history(examined: Examined) -> None:
    [finding] = await examined("locks")
    assert finding.verdict is OK


async def test_too_many_partitions_for_the_lock_table_are_reported(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    """As many as a rule for each number of days would bring."""
    most = await connection.fetchval(
        "SELECT current_setting('max_locks_per_transaction')::integer"
        " * (current_setting('max_connections')::integer"
        "    + current_setting('max_prepared_transactions')::integer)"
    )
    [finding] = await examined("locks", history_readers=most)
    assert finding.verdict is WARNING
    assert "out of shared memory" in finding.seen
    [setting] = finding.paste
    assert "max_locks_per_transaction" in setting
