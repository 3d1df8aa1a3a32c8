"""Schedules made, changed and looked at while workers run, or none does."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Penstock, ScheduleNotFound, Task
from penstock.errors import ConfigError
from tests.fixtures.database import Database


@pytest.fixture
def report(app: Penstock) -> Task[..., Any]:
    @app.task(name="report", queue="reports")
    async def report(kind: str = "all") -> None: ...

    return report


async def test_a_schedule_is_made_of_a_request_and_a_rule(
    app: Penstock, report: Task[..., Any]
) -> None:
    made = await app.set_schedule(
        "nightly",
        report.options(tenant="acme").prepare("sales"),
        cron="0 3 * * *",
        timezone="Europe/Berlin",
        jitter=30,
        overlap="queue_one",
        catch_up="once",
    )
    assert (made.task, made.queue, made.tenant, made.args) == (
        "report",
        "reports",
        "acme",
        {"kind": "sales"},
    )
    assert (made.cron, made.every, made.timezone, made.jitter) == (
        "0 3 * * *",
        None,
        "Europe/Berlin",
        30.0,
    )
    assert (made.overlap, made.catch_up, made.source, made.wins) == (
        "queue_one",
        "once",
        "runtime",
        "runtime",
    )
    ticks = made.upcoming(3)
    assert made.next_at == ticks[0]
    assert {tick.astimezone(tz=UTC).minute for tick in ticks} == {0}
    assert ticks[2] - ticks[0] in {timedelta(hours=hours) for hours in (47, 48, 49)}


async def test_what_is_not_given_stays(app: Penstock, report: Task[..., Any]) -> None:
    await app.set_schedule("nightly", report, cron="0 3 * * *", timezone="Europe/Berlin")
    changed = await app.set_schedule("nightly", every=timedelta(minutes=10))
    assert (changed.cron, changed.every, changed.timezone) == (None, 600.0, "Europe/Berlin")
    changed = await app.set_schedule("nightly", report.prepare("few"), overlap="allow")
    assert (changed.every, changed.args, changed.overlap) == (600.0, {"kind": "few"}, "allow")
    with pytest.raises(TypeError, match="There is nothing to change"):
        await app.set_schedule("nightly")


async def test_too_little_to_make_one_of_is_no_schedule(
    app: Penstock, report: Task[..., Any]
) -> None:
    for given in ({"cron": "0 3 * * *"}, {"what": report}):
        with pytest.raises(ScheduleNotFound, match="no schedule 'nightly'"):
            await app.set_schedule("nightly", **given)
    with pytest.raises(ConfigError, match="either cron or every"):
        await app.set_schedule("nightly", report, cron="0 3 * * *", every=60)
    with pytest.raises(ConfigError, match="timezone"):
        await app.set_schedule("nightly", report, cron="0 3 * * *", timezone="Mars/Olympus")
    with pytest.raises(ConfigError, match=r"timezone is 'UTC'.* for cron alone"):
        await app.set_schedule("nightly", report, every=60, timezone="UTC")
    with pytest.raises(ConfigError, match="jitter is 61; it must be 0 to 60 seconds"):
        await app.set_schedule("nightly", report, every=60, jitter=61)
    with pytest.raises(ScheduleNotFound, match="no schedule 'nightly'"):
        await app.schedule_fires("nightly")


async def test_a_name_that_is_nearly_right_is_told(app: Penstock, report: Task[..., Any]) -> None:
    await app.set_schedule("nightly", report, every=60)
    with pytest.raises(ScheduleNotFound, match="Did you mean 'nightly'"):
        await app.pause_schedule("nightyl")
    for call in (app.resume_schedule, app.reset_schedule, app.run_schedule, app.get_schedule):
        with pytest.raises(ScheduleNotFound):
            await call("weekly")
    assert not await app.remove_schedule("weekly")


async def test_a_paused_one_has_no_next_tick(app: Penstock, report: Task[..., Any]) -> None:
    await app.set_schedule("nightly", report, every=60)
    await app.pause_schedule("nightly")
    paused = await app.get_schedule("nightly")
    assert paused.paused_at is not None
    assert paused.next_at is None
    await app.pause_schedule("nightly")
    assert (await app.get_schedule("nightly")).paused_at == paused.paused_at
    await app.resume_schedule("nightly")
    assert (await app.get_schedule("nightly")).next_at is not None


async def test_run_now_it_is_a_job_like_any_other(app: Penstock, report: Task[..., Any]) -> None:
    app.schedule("nightly", report.prepare("sales"), cron="0 3 * * *")
    assert await app.sync_schedules() == ["nightly"]
    enqueued = await app.run_schedule("nightly")
    job = await app.get(enqueued)
    assert (job.task, job.queue, job.args, job.state) == (
        "report",
        "reports",
        {"kind": "sales"},
        "ready",
    )
    assert job.meta is not None
    assert job.meta["schedule"] == "nightly"
    assert datetime.fromisoformat(job.meta["tick"]).tzinfo is not None
    [fire] = await app.schedule_fires("nightly")
    assert (fire.kind, fire.job, fire.state, fire.why) == ("manual", job.id, "ready", None)


async def test_a_unique_job_that_lives_is_what_a_tick_came_to(
    app: Penstock, report: Task[..., Any]
) -> None:
    await app.set_schedule("nightly", report.options(unique=True), every=60)
    first, again = [await app.run_schedule("nightly") for _ in range(2)]
    assert first.id == again.id
    assert {fire.job for fire in await app.schedule_fires("nightly")} == {first.id}


async def test_an_edit_of_one_from_code_stays_until_it_is_reset(
    app: Penstock, report: Task[..., Any]
) -> None:
    app.schedule("nightly", report, cron="0 3 * * *")
    await app.sync_schedules()
    edited = await app.set_schedule("nightly", cron="0 5 * * *")
    assert (edited.source, edited.edited_at is not None) == ("code", True)
    assert await app.sync_schedules() == []
    assert (await app.get_schedule("nightly")).cron == "0 5 * * *"
    again = await app.reset_schedule("nightly")
    assert (again.cron, again.edited_at) == ("0 3 * * *", None)


async def test_what_no_code_declares_cannot_be_reset(app: Penstock, report: Task[..., Any]) -> None:
    await app.set_schedule("nightly", report, every=60)
    with pytest.raises(ConfigError, match="one that code declares"):
        await app.reset_schedule("nightly")


async def test_who_changed_it_is_in_the_audit(
    app: Penstock, report: Task[..., Any], connection: asyncpg.Connection
) -> None:
    await app.set_schedule("nightly", report.options(tenant="acme"), every=60, by="ada")
    await app.pause_schedule("nightly", by="ada")
    await app.resume_schedule("nightly", by="bob")
    await app.run_schedule("nightly", by="bob")
    assert await app.remove_schedule("nightly", by="bob")
    rows = await connection.fetch("SELECT actor, action, tenant, target FROM penstock.audit")
    assert [tuple(row) for row in rows] == [
        ("ada", "set_schedule", "acme", "nightly"),
        ("ada", "pause_schedule", "acme", "nightly"),
        ("bob", "resume_schedule", "acme", "nightly"),
        ("bob", "run_schedule", "acme", "nightly"),
        ("bob", "remove_schedule", "acme", "nightly"),
    ]
    assert await connection.fetchval("SELECT count(*) FROM penstock.schedule_fire") == 0


async def test_they_are_listed_by_name_a_page_at_a_time(
    app: Penstock, report: Task[..., Any]
) -> None:
    for name in ("c", "a", "b"):
        await app.set_schedule(name, report, every=60)
    assert [each.name for each in await app.schedules()] == ["a", "b", "c"]
    assert [each.name for each in await app.schedules(after="a", limit=1)] == ["b"]


async def test_rolled_back_transaction_schedules_nothing(
    app: Penstock, report: Task[..., Any], connection: asyncpg.Connection
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await app.inside(connection).set_schedule("nightly", report, every=60)
    await transaction.rollback()
    assert await app.schedules() == []


def test_code_that_does_not_await_has_the_same_calls(database: Database) -> None:
    app = Penstock(database.url)

    @app.task
    def report() -> None: ...

    app.schedule("nightly", report, cron="0 3 * * *")
    with app.sync as jobs:
        assert jobs.sync_schedules() == ["nightly"]
        jobs.set_schedule("nightly", cron="0 4 * * *")
        assert jobs.reset_schedule("nightly").cron == "0 3 * * *"
        assert jobs.run_schedule("nightly").id
        assert [each.name for each in jobs.schedules()] == ["nightly"]
