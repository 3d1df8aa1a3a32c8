"""A worker that stops breaks no statement off."""

import asyncio

import pytest

from penstock import Penstock
from penstock.lifecycle import Service
from tests.fixtures.database import Database
from tests.fixtures.pgbouncer import pgbouncer
from tests.fixtures.worker import worker_of


async def test_no_cancel_goes_through_pgbouncer_when_busy_workers_stop(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PgBouncer 1.18 may end when the client behind a cancel goes at the wrong moment."""
    # What takes longer than a second, as on a busy machine, would be broken off; and so is a claim
    # that takes a quarter of the time to leave, and a beat that takes longer than the pause between
    # two.
    monkeypatch.setattr(Service, "finish_within", 30.0)
    ran = asyncio.Semaphore(0)
    async with pgbouncer(database.direct_url) as bouncer:
        async with Penstock(bouncer.url(database.direct_url)) as app:

            @app.task
            async def note() -> None:
                ran.release()

            await app.enqueue_many(note.prepare() for _ in range(5000))
            pace = {"claim_most": 50, "rescan": 0.01, "poll": 0.01, "election": 0.01}
            for _ in range(5):
                async with worker_of(app, **pace, lease=300, heartbeat=60, leave=120):
                    for _ in range(500):
                        await ran.acquire()
        assert not [line for line in bouncer.log if "cancel" in line]
