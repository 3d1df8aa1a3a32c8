"""How long jobs that have ended are kept, as people set it."""

import asyncio
import json

import asyncpg
import pytest

from penstock import Penstock, task
from penstock.errors import ConfigError, DatabaseBusy
from penstock.groups.settings import Retention
from tests.fixtures.database import Database
from tests.fixtures.until import until

# No lock is waited for: only the last statement of a session tells of a try.
TRIED = """
SELECT count(*) > 0 FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND query LIKE '%INTO "penstock".retention%'
"""
# As VACUUM holds it.
VACUUM_LOCK = "LOCK TABLE penstock.job_history IN SHARE UPDATE EXCLUSIVE MODE"


@task
async def note() -> None: ...


async def kept_for(app: Penstock, connection: asyncpg.Connection, **options: str) -> int:
    """Days for which a job that is cancelled now is kept."""

    job = await app.enqueue(note.options(**options))
    await app.cancel(job)
    days: int = await connection.fetchval(
        "SELECT expires_on - (finished_at AT TIME ZONE 'UTC')::date FROM penstock.job_history"
        " WHERE id = $1",
        int(job.id),
    )
    return days - 1


async def test_a_rule_holds_for_jobs_that_end_from_then_on(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    assert await kept_for(app, connection) == 7
    assert await app.set_retention("cancelled", 3) == Retention(
        state="cancelled", days=3, queue="", tenant=""
    )
    # Up to 14 days are kept to the day.
    await app.set_retention("cancelled", 14, queue="mail", tenant="acme")
    assert await kept_for(app, connection) == 3
    assert await kept_for(app, connection, queue="mail", tenant="acme") == 14
    rows = await connection.fetch("SELECT expires_on FROM penstock.job_history ORDER BY id")
    assert rows[0]["expires_on"] > rows[1]["expires_on"]  # the first keeps its own


async def test_a_rule_is_changed_read_back_and_removed(app: Penstock) -> None:
    await app.set_retention("failed", 90, queue="documents")
    await app.set_retention("failed", 60, queue="documents")
    await app.set_retention("completed", 0)
    assert [(each.state, each.days, each.queue) for each in await app.retentions()] == [
        ("completed", 0, ""),
        ("failed", 60, "documents"),
    ]
    assert await app.remove_retention("failed", queue="documents")
    assert not await app.remove_retention("failed", queue="documents")
    assert [each.state for each in await app.retentions()] == ["completed"]


async def test_who_changed_it_is_in_the_audit(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_retention("failed", 9, tenant="acme", by="ada")
    await app.remove_retention("failed", tenant="acme", by="bob")
    rows = await connection.fetch(
        "SELECT actor, action, tenant, target, detail::text FROM penstock.audit ORDER BY id"
    )
    detail = {"queue": "", "days": 9}
    assert [(*row[:4], json.loads(row[4])) for row in map(tuple, rows)] == [
        ("ada", "set_retention", "acme", "failed", detail),
        ("bob", "remove_retention", "acme", "failed", detail),
    ]


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        ("state", {"state": "ready", "days": 3}),
        ("days", {"state": "failed", "days": 401}),
        ("days", {"state": "failed", "days": 1.5}),
        ("queue", {"state": "failed", "days": 1, "queue": "no queue"}),
        ("tenant", {"state": "failed", "days": 1, "tenant": "a\0b"}),
    ],
)
async def test_a_slip_is_named(app: Penstock, setting: str, arguments) -> None:
    with pytest.raises(ConfigError) as refused:
        await app.set_retention(**arguments)
    assert refused.value.setting == setting


async def test_code_that_does_not_await_has_the_same_calls(app: Penstock) -> None:
    def work() -> None:
        with Penstock(app.url).sync as jobs:
            jobs.set_retention("failed", 5)
            assert [each.days for each in jobs.retentions()] == [5]
            assert jobs.remove_retention("failed")

    await asyncio.to_thread(work)


async def test_retention_rule_waits_for_a_vacuum(
    app: Penstock, database: Database, connection: asyncpg.Connection
) -> None:
    async with database.connect() as vacuum:
        held = vacuum.transaction()
        await held.start()
        await vacuum.execute(VACUUM_LOCK)
        changing = asyncio.create_task(app.set_retention("failed", 90))

        async def has_tried() -> bool:
            return bool(await connection.fetchval(TRIED))

        await until(has_tried, what="a try that met the lock")
        await held.rollback()
        assert (await changing).days == 90


async def test_a_lock_that_lasts_is_named_with_its_holder(
    database: Database, connection: asyncpg.Connection
) -> None:
    pid = await connection.fetchval("SELECT pg_backend_pid()")
    async with connection.transaction(), Penstock(database.url, call_timeout=5.0) as app:
        await connection.execute(VACUUM_LOCK)
        with pytest.raises(DatabaseBusy) as told:
            await app.set_retention("failed", 90)
        assert told.value.sqlstate == "55P03"
        assert f"process {pid}" in str(told.value)
        assert "LOCK TABLE penstock.job_history" in str(told.value)
        assert f"SELECT pg_cancel_backend({pid});" in str(told.value)
        assert await app.retentions() == []
