"""What the doctor says of schedules that do not fire, or fire in vain."""

import re

import asyncpg

from penstock import Penstock
from tests.doctor.examined import ERROR, OK, WARNING, Examined

LEASE = "SELECT penstock.open_lease_v1('ada', 60, $1)"


async def test_schedules_that_fire_are_well(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    @app.task(name="report")
    async def report() -> None: ...

    await app.set_schedule("nightly", report, cron="0 3 * * *")
    await connection.execute("UPDATE penstock.schedule SET next_at = now() + interval '1 hour'")
    [finding] = await examined("schedules")
    assert finding.verdict is OK
    await connection.fetchval(LEASE, '{"tasks": ["report"], "schedules": []}')
    [finding] = await examined("schedules")
    assert finding.verdict is OK


async def test_undeclared_schedule_is_named_with_the_remove_command(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    @app.task(name="report")
    async def report() -> None: ...

    app.schedule("nightly", report, cron="0 3 * * *")
    await app.sync_schedules()
    await connection.fetchval(LEASE, '{"tasks": ["report"], "schedules": ["weekly"]}')
    [finding] = await examined("schedules")
    assert finding.verdict is WARNING
    assert "1 schedule from code will not fire" in finding.seen
    assert finding.paste == ("penstock schedules remove nightly",)
    await connection.fetchval(LEASE, '{"tasks": ["report"], "schedules": ["nightly"]}')
    [finding] = await examined("schedules")
    assert finding.verdict is OK


async def test_overdue_ticks_and_unknown_tasks_are_reported(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    @app.task(name="report")
    async def report() -> None: ...

    await app.set_schedule("nightly", report, cron="0 3 * * *")
    await connection.fetchval(LEASE, '{"tasks": ["other"], "schedules": []}')
    await connection.execute("UPDATE penstock.schedule SET next_at = now() - interval '2 minutes'")
    late, strange = await examined("schedules")
    assert (late.verdict, strange.verdict) == (ERROR, WARNING)
    assert re.search("should have fired, the first one 2 min( . s)? ago: nightly", late.seen)
    assert "nightly (report)" in strange.seen
    await app.pause_schedule("nightly")
    [finding] = await examined("schedules")
    assert finding.verdict is OK
