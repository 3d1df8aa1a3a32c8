"""A running job is cancelled from outside."""

import asyncio
import logging
import threading

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.telemetry import SettleRefused
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import (
    cut_connections,
    drop_cancels,
    drop_notifications,
    expect_quick_jobs,
    gathered,
    queue_state,
    reaches,
    worker_of,
)


@pytest.mark.told
async def test_an_async_handler_gets_a_cancelled_error(app: Penstock) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with worker_of(app, heartbeat=60, lease=120):
        enqueued = await app.enqueue(endless)
        await started.wait()
        await app.cancel(enqueued)
        await asyncio.wait_for(stopped.wait(), 30)
    assert (await app.get(enqueued)).state == "cancelled"


async def test_a_sync_handler_finds_its_flag_set(app: Penstock) -> None:
    started, stopped = threading.Event(), threading.Event()

    @app.task
    def endless(ctx: Context) -> None:
        started.set()
        pause = threading.Event()
        for _ in range(6000):
            if ctx.cancelled:
                stopped.set()
                return
            pause.wait(0.01)

    async with worker_of(app):
        enqueued = await app.enqueue(endless)
        await until(started.is_set, what="the handler")
        await app.cancel(enqueued)
        await until(stopped.is_set, what="the handler to see its flag")
    assert (await app.get(enqueued)).state == "cancelled"


async def test_without_notifications_the_next_heartbeat_brings_it(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_notifications(monkeypatch)
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with worker_of(app, heartbeat=0.1):
        enqueued = await app.enqueue(endless)
        await started.wait()
        await app.cancel(enqueued)
        await asyncio.wait_for(stopped.wait(), 30)


async def test_the_late_outcome_of_a_cancelled_job_is_no_fault(
    app: Penstock, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = asyncio.Event()
    refused = gathered(app, SettleRefused)

    @app.task
    async def slow() -> str:
        await go_on.wait()
        return "too late"

    # With neither notifications nor heartbeats the handler ends before it hears of the cancel.
    worker = worker_of(app, heartbeat=60, lease=120, reconcile=3600)
    async with worker:
        enqueued = await app.enqueue(slow)
        await reaches(app, enqueued, "running")
        drop_cancels(worker)
        await app.cancel(enqueued)
        with caplog.at_level(logging.WARNING, "penstock"):
            go_on.set()
            await until(lambda: refused, what="the late outcome")
    assert [(event.job_id, event.answer) for event in refused] == [(enqueued.id, "cancelled")]
    assert worker.tally.refused == 0
    assert caplog.records == []
    assert (await app.get(enqueued)).state == "cancelled"


async def test_a_job_cancelled_before_it_got_a_slot_never_runs(app: Penstock) -> None:
    """Fetched ahead is not started yet."""
    ran: list[str] = []
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow(name: str) -> None:
        ran.append(name)
        started.set()
        await go_on.wait()

    worker = worker_of(app, {"default": 1})
    async with worker:
        first = await app.enqueue(slow, "first")
        await started.wait()
        # As if the jobs before had been quick: the worker holds more than it has slots for.
        expect_quick_jobs(worker)
        second = await app.enqueue(slow, "second")
        await reaches(app, second, "running")
        await app.cancel(second)
        await until(lambda: not queue_state(worker).fetched, what="the worker to be told")
        go_on.set()
        await app.wait(first, timeout=30)
        third = await app.enqueue(slow, "third")
        await app.wait(third, timeout=30)
    assert ran == ["first", "third"]


@pytest.mark.told
async def test_cancel_arrives_while_the_listener_is_away(app: Penstock, database: Database) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with worker_of(app):
        enqueued = await app.enqueue(endless)
        await started.wait()
        await cut_connections(database.admin_url, "penstock listener")
        await app.cancel(enqueued)
        await asyncio.wait_for(stopped.wait(), 30)
