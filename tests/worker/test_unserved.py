"""The leader warns of ready jobs in queues that no worker serves."""

import logging

import pytest

from penstock import Penstock
from penstock.maintenance.chores import describe_unserved
from tests.fixtures.until import until
from tests.fixtures.worker import counted, leading, lease_held, worker_of

LEADER = "penstock.leader"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == LEADER and record.levelno == logging.WARNING
    ]


async def test_leader_warns_of_a_queue_without_a_worker(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def send() -> None: ...

    await app.enqueue(send.options(queue="mail"))
    await app.pause("rest")
    await app.enqueue(send.options(queue="rest"))
    looks = counted(app, "unserved_queues")
    async with worker_of(app, unserved=0.05):
        await until(lambda: warnings(caplog), what="the warning")
        # It goes on looking, and does not say so again.
        before = len(looks)
        await until(lambda: len(looks) > before + 1, what="another look")
    [warning] = warnings(caplog)
    assert warning.startswith("No worker serves the queue mail, whose oldest job has been ready")
    assert "`penstock work APP --queue mail`" in warning


async def test_a_queue_that_any_worker_serves_is_none_of_them(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def send() -> None: ...

    async with worker_of(app, {"default": 1, "mail": 1}, unserved=0.05) as worker:
        await leading(worker)
        await lease_held(worker)
        job = await app.enqueue(send.options(queue="mail"))
        await app.wait(job, timeout=30)
        store, pool = app.store, await app.pool()
        assert await store.unserved_queues(pool, 0.0) == []
    assert warnings(caplog) == []


def test_many_queues_are_told_in_one_line() -> None:
    told = describe_unserved([(f"queue-{n}", 90.0 - n) for n in range(9)])
    assert told.startswith(
        "No worker serves the queues queue-0, queue-1, queue-2, queue-3, queue-4 and 4 more. The "
        "oldest job, of queue-0, has been ready for 1 min 30 s."
    )
