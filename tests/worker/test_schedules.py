"""Workers write the schedules of their code, and the leader fires them."""

import logging
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from penstock import Context, Fire, Penstock
from penstock.maintenance.schedules import MAX_COUNTED_TICKS
from tests.fixtures.until import until
from tests.fixtures.worker import leading, listening, worker_of

SHORT = 0.1


async def fired(app: Penstock, name: str, number: int = 1, **wanted: Any) -> list[Fire]:
    """Wait until a schedule has so many fires of a kind, the oldest first."""

    async def enough() -> list[Fire]:
        found = [
            fire
            for fire in reversed(await app.schedule_fires(name, limit=200))
            if all(getattr(fire, key) == value for key, value in wanted.items())
        ]
        return found if len(found) >= number else []

    return await until(enough, what=f"{number} fires of {name}")


async def test_what_the_code_declares_fires_while_a_worker_runs(app: Penstock) -> None:
    ran: list[dict[str, Any]] = []

    @app.task
    async def note(ctx: Context, word: str) -> None:
        ran.append({**(ctx.job.meta or {}), "word": word})

    app.schedule("notes", note.prepare("water"), every=SHORT, overlap="allow")
    async with worker_of(app):
        fires = await fired(app, "notes", 5)
        await until(lambda: len(ran) >= 5, what="the jobs")
        found = await app.get_schedule("notes")
    assert {one["word"] for one in ran} == {"water"}
    ticks = [datetime.fromisoformat(one["tick"]) for one in ran[:5]]
    assert ticks == [fire.tick for fire in fires[:5]]
    gaps = {late.tick - early.tick for early, late in pairwise(fires)}
    assert gaps == {timedelta(seconds=SHORT)}
    assert (found.source, found.is_active, found.last_why) == ("code", True, None)
    assert not (await app.get_schedule("notes")).is_active


async def test_a_tick_is_seldom_late_by_more_than_a_moment(app: Penstock) -> None:
    @app.task
    async def note() -> None: ...

    app.schedule("notes", note, every=SHORT, overlap="allow")
    # Who looked now and then would be late by seconds; a slow machine is not.
    async with worker_of(app, promote_most=60, poll=60, rescan=60):
        fires = await fired(app, "notes", 8)
    late = sorted((fire.fired_at - fire.tick).total_seconds() for fire in fires)
    assert late[len(late) // 2] < 5, late


@pytest.mark.told
async def test_runtime_schedule_fires_at_once_without_a_declaration(app: Penstock) -> None:
    @app.task
    async def note() -> None: ...

    async with worker_of(app, promote_most=60, poll=60) as worker:
        await listening(worker)
        await leading(worker)
        made = await app.set_schedule("notes", note, every=SHORT)
        assert (made.source, made.is_active) == ("runtime", True)
        await fired(app, "notes")


async def test_drain_fires_due_schedules_and_ends(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task
    async def note() -> None: ...

    app.schedule("notes", note, every=0.1, overlap="allow", catch_up="once")
    await app.sync_schedules()
    await connection.execute(
        "UPDATE penstock.schedule SET anchor = anchor - interval '1 h', "
        "done_until = done_until - interval '1 h', next_at = now() - interval '1 h'"
    )
    tally = await worker_of(app, schedule_grace=0).drain()
    assert tally.completed >= 1
    oldest = (await app.schedule_fires("notes", limit=1000))[-1]
    assert (oldest.ticks, oldest.job is not None) == (MAX_COUNTED_TICKS, True)


async def test_on_start_it_fires_when_a_leader_takes_office(app: Penstock) -> None:
    @app.task
    async def note() -> None: ...

    app.schedule("notes", note, cron="0 0 1 1 *", on_start=True, overlap="allow")
    async with worker_of(app):
        await fired(app, "notes", 1, kind="start")
    async with worker_of(app):
        first, second = await fired(app, "notes", 2, kind="start")
    assert first.tick < second.tick


@pytest.mark.told
async def test_one_that_could_not_fire_does_so_once_it_is_mended(
    app: Penstock, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="note")
    async def note() -> None: ...

    async with worker_of(app) as worker:
        await listening(worker)
        await connection.execute(
            "INSERT INTO penstock.schedule (name, cron, timezone, request)"
            """ VALUES ('notes', '* * * * * *', 'Mars/Olympus', '{"task": "note"}')"""
        )
        await until(lambda: "cannot fire" in caplog.text, what="the complaint")
        await app.set_schedule("notes", timezone="Europe/Berlin")
        await fired(app, "notes")


async def test_broken_schedule_is_logged_and_others_fire(
    app: Penstock, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def note() -> None: ...

    app.schedule("notes", note, every=SHORT, overlap="allow")
    await connection.execute(
        "INSERT INTO penstock.schedule (name, cron, timezone, request)"
        """ VALUES ('broken', '0 3 * * *', 'Mars/Olympus', '{"task": "note"}')"""
    )
    with caplog.at_level(logging.ERROR, "penstock.schedules"):
        async with worker_of(app):
            await fired(app, "notes", 3)
    [record] = caplog.records
    assert "The schedule broken cannot fire" in record.message
    assert "Mars/Olympus" in record.message
