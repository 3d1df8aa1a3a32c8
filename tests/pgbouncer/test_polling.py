"""Where no notification arrives, workers look more often, and everything is found."""

import asyncio
import logging

import pytest

from penstock import Penstock
from tests.fixtures.address import with_database
from tests.fixtures.database import Database
from tests.fixtures.pgbouncer import pgbouncer
from tests.fixtures.until import until
from tests.fixtures.worker import listening, worker_of, worker_state

NEVER = 3600.0


def is_deaf(caplog: pytest.LogCaptureFixture) -> bool:
    return any("do not reach this worker" in record.getMessage() for record in caplog.records)


async def test_ready_and_due_jobs_are_found_by_looking_for_them(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def note() -> str:
        return "done"

    with caplog.at_level(logging.INFO, "penstock.listener"):
        worker = worker_of(app, poll=0.05, rescan=NEVER, promote_most=NEVER)
        async with worker:
            await until(lambda: is_deaf(caplog), what="the listener to give up")
            for delay in (0, 0.1, 0):
                job = await app.enqueue(note.options(delay=delay))
                assert await app.wait(job, timeout=30) == "done"
            assert not worker_state(worker).listening


async def test_a_cancel_arrives_with_the_next_heartbeat(app: Penstock) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with worker_of(app, heartbeat=0.2):
        job = await app.enqueue(endless)
        await started.wait()
        await app.cancel(job)
        await asyncio.wait_for(stopped.wait(), 30)


async def test_in_session_mode_a_worker_is_told_at_once(database: Database) -> None:
    async with (
        pgbouncer(database.direct_url, pool_mode="session") as bouncer,
        Penstock(bouncer.url(database.direct_url)) as app,
    ):

        @app.task
        async def note() -> str:
            return "done"

        worker = worker_of(app, poll=NEVER, rescan=NEVER, promote_most=NEVER)
        async with worker:
            await listening(worker)
            for delay in (0, 0.1):
                job = await app.enqueue(note.options(delay=delay))
                assert await app.wait(job, timeout=30) == "done"


async def test_an_address_to_listen_at_that_leads_elsewhere_is_noticed(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = with_database(database.direct_url, "postgres")
    async with Penstock(database.url, listen_url=elsewhere) as app:

        @app.task
        async def note() -> str:
            return "done"

        with caplog.at_level(logging.INFO, "penstock.listener"):
            async with worker_of(app, rescan=NEVER):
                await until(lambda: is_deaf(caplog), what="the listener to give up")
                assert await app.wait(await app.enqueue(note), timeout=30) == "done"
