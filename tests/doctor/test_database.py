"""Connection, rights, schema, clock, settings and connections, healthy and ill."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from math import copysign

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.doctor import Verdict
from penstock.errors import NotAllowed
from penstock.migrate import migrate
from tests.doctor.examined import ERROR, OK, SKIPPED, WARNING, Examined, paste
from tests.fixtures.address import with_database
from tests.fixtures.database import Database, connected, create, drop
from tests.fixtures.server import PostgresServer
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of
from tests.insights.rows import limit


@pytest.fixture
async def admin(database: Database) -> AsyncIterator[asyncpg.Connection]:
    async with connected(database.admin_url) as connection:
        yield connection


# Connection


async def test_a_server_that_answers_is_told_with_its_version(examined: Examined) -> None:
    [finding] = await examined("connection")
    assert finding.verdict is OK
    assert finding.seen.startswith("PostgreSQL 1")


async def test_unreachable_server_is_an_error_and_the_rest_is_skipped() -> None:
    report = await Examined("postgresql://somebody@127.0.0.1:1/shop").report()
    [connection, *others] = report.results
    assert connection.verdict is report.verdict is ERROR
    assert "cannot be reached" in connection.findings[0].seen
    assert connection.findings[0].paste == ("pg_isready --host 127.0.0.1 --port 1",)
    assert {result.verdict for result in others} == {SKIPPED}


async def test_it_is_told_even_if_another_check_was_asked_for() -> None:
    report = await Examined("postgresql://somebody@127.0.0.1:1/shop").report("clock")
    assert [result.check.name for result in report.results] == ["connection", "clock"]


async def test_a_database_that_does_not_exist_is_named(database: Database) -> None:
    report = await Examined(with_database(database.url, "nowhere")).report()
    finding = report.results[0].findings[0]
    assert finding.verdict is ERROR
    assert finding.paste == ('CREATE DATABASE "nowhere";',)


async def test_a_database_that_is_full_lets_nobody_in(
    database: Database, admin: asyncpg.Connection, examined: Examined
) -> None:
    await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0")
    report = await examined.report()
    finding = report.results[0].findings[0]
    assert finding.verdict is ERROR
    assert "no more connections" in finding.seen


# Rights


@pytest.fixture
async def stranger(database: Database, admin: asyncpg.Connection) -> AsyncIterator[str]:
    """An address under a role that owns nothing and was granted nothing."""
    role = f"{database.name}_stranger"
    await admin.execute(f"CREATE ROLE {role}")
    # On a server of version 15 only two roles may log in, so it is taken on at once after that.
    mark = "&" if "?" in database.admin_url else "?"
    yield f"{database.admin_url}{mark}role={role}"
    await admin.execute(f"DROP OWNED BY {role}")
    await admin.execute(f"DROP ROLE {role}")


async def test_the_owner_of_the_tables_may_do_everything(examined: Examined) -> None:
    [finding] = await examined("rights")
    assert finding.verdict is OK


async def test_suggested_grants_suffice_for_clients_and_workers(
    database: Database,
    stranger: str,
    connection: asyncpg.Connection,
    admin: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    examined = Examined(stranger)
    [finding] = await examined("rights")
    assert finding.verdict is ERROR
    role = f'"{database.name}_stranger"'
    assert f'GRANT USAGE ON SCHEMA "penstock" TO {role};' in finding.paste
    await paste(connection, finding)
    [finding] = await examined("rights")
    assert finding.verdict is WARNING, finding
    assert "partitions" in finding.seen
    await limit(connection, "greeting", slots=1, rate=100.0, burst=100.0)
    await _enqueue_and_work(stranger)
    assert not [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    await paste(admin, finding)
    [finding] = await examined("rights")
    assert finding.verdict is OK


async def _enqueue_and_work(url: str) -> None:
    """All that a client can ask, and all that a worker does."""
    async with Penstock(url) as app:

        @app.task
        async def greet(ctx: Context, name: str) -> str:
            ctx.progress(1, 2)
            return f"Hello, {name}"

        limited = greet.options(limits="greeting", tenant="acme")
        # A lease that a busy machine does not let end: the log is looked at.
        async with worker_of(app, sweep=0.1, partitions=3600, lease=30):
            assert await app.wait(await app.enqueue(limited, "Bo"), timeout=30) == "Hello, Bo"
            done = await app.enqueue(greet.options(idempotency_key="one"), "Ada")
            assert await app.wait(done, timeout=30) == "Hello, Ada"
        later = await app.enqueue(greet.options(delay=3600), "Ada")
        await app.cancel(later)
        await app.retry(later)
        await app.pause("default")
        await app.resume("default")
        await app.cancel(later)
        await app.delete(later)
        await app.list(state="completed")


async def test_a_right_that_only_workers_need_is_told_as_such(
    database: Database, stranger: str, connection: asyncpg.Connection
) -> None:
    [finding] = await Examined(stranger)("rights")
    await paste(connection, finding)
    await connection.execute(f'REVOKE UPDATE ON penstock.lease FROM "{database.name}_stranger"')
    [finding] = await Examined(stranger)("rights")
    assert "can enqueue but not work" in finding.seen
    assert finding.paste == (f'GRANT UPDATE ON "penstock"."lease" TO "{database.name}_stranger";',)


@pytest.mark.usefixtures("roles")
async def test_rls_role_needs_the_rights_of_a_worker_or_an_app(
    database: Database, stranger: str, admin: asyncpg.Connection
) -> None:
    await migrate(database.direct_url, rls=True)
    role = f'"{database.name}_stranger"'
    [finding] = await Examined(stranger)("rights")
    assert finding.verdict is ERROR
    assert finding.paste == (
        f'GRANT "penstock_worker" TO {role};',
        f'GRANT "penstock_app" TO {role};',
    )
    for grant, may in zip(finding.paste, ("what workers do", "what an app does"), strict=True):
        await admin.execute(grant)
        [finding] = await Examined(stranger)("rights")
        assert (finding.verdict, may in finding.seen) == (OK, True)
        await admin.execute(grant.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    [finding] = await Examined(database.url)("rights")
    assert finding.verdict is OK, "the owner may do all"


@pytest.mark.usefixtures("roles")
async def test_missing_right_of_a_worker_under_rls_is_named(
    database: Database, stranger: str, admin: asyncpg.Connection
) -> None:
    await migrate(database.direct_url, rls=True)
    await admin.execute(f'GRANT penstock_worker TO "{database.name}_stranger"')
    await admin.execute("REVOKE EXECUTE ON FUNCTION penstock.settle_v1 FROM penstock_worker")
    [finding] = await Examined(stranger)("rights")
    assert finding.verdict is ERROR
    async with Penstock(stranger) as app:
        with pytest.raises(NotAllowed, match="settle_v1") as refused:
            await worker_of(app).start()
        [remedy] = finding.paste
        assert remedy in refused.value.remedy
        await admin.execute(remedy)
        async with worker_of(app):
            pass
    [finding] = await Examined(stranger)("rights")
    assert finding.verdict is OK


async def test_checks_without_rights_are_skipped(stranger: str) -> None:
    report = await Examined(stranger).report("schema", "workers", "stuck-jobs", "clock")
    verdicts = {result.check.name: result.verdict for result in report.results}
    assert verdicts == {
        "schema": SKIPPED,
        "clock": OK,
        "workers": SKIPPED,
        "stuck-jobs": SKIPPED,
    }
    assert "permission denied" in report.results[0].findings[0].seen


# Schema


async def test_a_migrated_schema_is_complete(examined: Examined) -> None:
    [finding] = await examined("schema")
    assert finding.verdict is OK, finding


async def test_database_without_tables_is_an_error_with_migrate(postgres: PostgresServer) -> None:
    empty = await create(postgres, source="template1")
    try:
        report = await Examined(empty.url).report()
        verdicts = {result.check.name: result.verdict for result in report.results}
        assert verdicts["schema"] is ERROR
        assert verdicts["stuck-jobs"] is verdicts["workers"] is SKIPPED
        assert set(verdicts.values()) <= {OK, SKIPPED, ERROR}
        [finding] = await Examined(empty.url)("schema")
        assert finding.paste == ("penstock migrate",)
    finally:
        await drop(postgres, empty)


async def test_a_schema_by_another_name_is_found_or_missed(examined: Examined) -> None:
    [finding] = await examined("schema", schema="elsewhere")
    assert finding.verdict is ERROR
    assert "'elsewhere'" in finding.seen


async def test_commands_to_paste_lead_to_the_schema_that_was_examined(
    database: Database, examined: Examined
) -> None:
    [finding] = await examined("schema", schema="my jobs")
    assert finding.paste == ("penstock migrate --schema 'my jobs'",)
    assert "`penstock migrate --schema 'my jobs'`" in finding.seen
    await migrate(database.url, schema="my jobs")
    [finding] = await examined("workers", schema="my jobs")
    assert finding.paste == ("penstock work APP --schema 'my jobs'",)


async def test_old_schema_is_an_error_with_migrate(examined: Examined, later: str) -> None:
    [finding] = await examined("schema")
    assert finding.verdict is ERROR
    assert "migration 1" in finding.seen
    assert finding.paste == ("penstock migrate",)


async def test_a_schema_that_is_too_new_for_this_version_is_an_error(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute("INSERT INTO penstock.migration VALUES (999, '0999_far_ahead')")
    [finding] = await examined("schema")
    assert finding.verdict is OK, "it still has all that this version calls"
    await connection.execute("DROP FUNCTION penstock.fence_v1")
    [finding] = await examined("schema")
    assert finding.verdict is ERROR
    assert "999" in finding.seen


async def test_a_function_that_was_dropped_can_be_pasted_back(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute("DROP FUNCTION penstock.fence_v1, penstock.save_progress_v1")
    [finding] = await examined("schema")
    assert finding.verdict is ERROR
    assert "fence_v1, save_progress_v1" in finding.seen
    await paste(connection, finding)
    [finding] = await examined("schema")
    assert finding.verdict is OK


async def test_a_function_that_was_altered_can_be_pasted_back(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute(
        "CREATE OR REPLACE FUNCTION penstock.commit_durably_v1() RETURNS void "
        "LANGUAGE sql AS 'SELECT'"
    )
    [finding] = await examined("schema")
    assert finding.verdict is WARNING
    assert "commit_durably_v1" in finding.seen
    await paste(connection, finding)
    [finding] = await examined("schema")
    assert finding.verdict is OK


@pytest.mark.parametrize("index", ["job_ready", "job_history_failed"])
async def test_an_index_that_was_dropped_can_be_pasted_back(
    connection: asyncpg.Connection, examined: Examined, index: str
) -> None:
    await connection.execute(f"DROP INDEX penstock.{index}")
    [finding] = await examined("schema")
    assert finding.verdict is ERROR
    assert index in finding.seen
    await paste(connection, finding)
    [finding] = await examined("schema")
    assert finding.verdict is OK


async def test_an_index_that_is_half_built_can_be_built_anew(
    connection: asyncpg.Connection, admin: asyncpg.Connection, examined: Examined
) -> None:
    await admin.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'penstock.job_running'::regclass"
    )
    [finding] = await examined("schema")
    assert finding.verdict is ERROR
    await paste(connection, finding)
    [finding] = await examined("schema")
    assert finding.verdict is OK


# Clock


async def test_clocks_that_agree_are_fine(examined: Examined) -> None:
    [finding] = await examined("clock")
    assert finding.verdict is OK


@pytest.mark.parametrize(
    ("seconds", "verdict", "word"),
    [(10, WARNING, "10 s ahead"), (-10, WARNING, "10 s behind"), (300, ERROR, "5 min ahead")],
)
async def test_a_clock_that_is_off_is_told_with_its_difference(
    examined: Examined, seconds: float, verdict: Verdict, word: str
) -> None:
    def skewed() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=seconds + copysign(0.25, seconds))

    [finding] = await examined("clock", clock=skewed)
    assert finding.verdict is verdict
    assert word in finding.seen


# Settings


@pytest.mark.parametrize(
    ("setting", "value", "verdict"),
    [
        ("statement_timeout", "'4900ms'", WARNING),
        ("lock_timeout", "'100ms'", WARNING),
        ("idle_in_transaction_session_timeout", "'9s'", WARNING),
        ("idle_session_timeout", "'30s'", WARNING),
        ("synchronous_commit", "off", WARNING),
        ("default_transaction_isolation", "serializable", WARNING),
        ("default_transaction_read_only", "on", ERROR),
    ],
)
@pytest.mark.usefixtures("durable")
async def test_a_setting_that_hurts_is_told(
    database: Database,
    admin: asyncpg.Connection,
    examined: Examined,
    setting: str,
    value: str,
    verdict: Verdict,
) -> None:
    [finding] = await examined("settings")
    assert finding.verdict is OK
    await admin.execute(f"ALTER DATABASE {database.name} SET {setting} = {value}")
    [finding] = await examined("settings")
    assert finding.verdict is verdict
    assert setting in finding.seen
    assert setting in finding.paste[0]


async def test_server_that_may_lose_commits_is_an_error_with_a_remedy(
    admin: asyncpg.Connection, examined: Examined
) -> None:
    """The test server is one."""
    told = {finding.paste: finding.verdict for finding in await examined("settings")}
    assert told == {
        (f"ALTER SYSTEM SET {setting} = on;", "SELECT pg_reload_conf();"): ERROR
        for setting in ("fsync", "full_page_writes")
    }


# Connections


ONLY_WE = """
SELECT count(*) = 2 FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend'
"""


async def test_a_limit_that_is_nearly_reached_is_told(
    database: Database, connection: asyncpg.Connection, examined: Examined,
    admin: asyncpg.Connection,
) -> None:  # fmt: skip
    [finding] = await examined("connections")
    assert finding.verdict is OK
    await until(lambda: admin.fetchval(ONLY_WE), what="the doctor's connection to be gone")
    # This test's own, the superuser's, and the doctor's.
    await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 3")
    [finding] = await examined("connections")
    assert finding.verdict is ERROR
    assert f"3 of 3 connections of the database {database.name}" in finding.seen
    await admin.execute(finding.paste[-1])
    [finding] = await examined("connections")
    assert finding.verdict is OK
