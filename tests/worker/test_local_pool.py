"""An app's local pools end with its workers, and with the app."""

import asyncio
import threading
import time

import pytest

from penstock import Penstock, PoolCounts
from penstock.errors import ConfigError
from penstock.telemetry import CallsDropped, WorkerStopping
from penstock.testing import drain, for_tests
from tests.fixtures.app import let_pools_close
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import gathered, worker_of

pytestmark = pytest.mark.any_pooler


async def test_a_worker_lets_pools_finish_before_its_jobs_have_to(app: Penstock) -> None:
    order: list[str] = []
    begun, go_on, job_may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    phases = gathered(app, WorkerStopping)
    pool = app.local_pool()

    async def track() -> None:
        await go_on.wait()
        order.append("call")

    @app.task
    async def slow() -> None:
        begun.set()
        await job_may_end.wait()
        order.append("job")

    worker = worker_of(app)
    await worker.start()
    await app.enqueue(slow)
    await begun.wait()
    pool.submit(track)
    stopping = asyncio.ensure_future(worker.stop())
    await until(lambda: phases)
    assert pool.submit(int)  # the app goes on, with its web handlers or other workers
    go_on.set()
    await until(lambda: len(phases) == 2)
    order.append("phase finish")
    job_may_end.set()
    await stopping
    assert order == ["call", "phase finish", "job"]
    assert [(phase.phase, phase.running) for phase in phases] == [("pool", 1), ("finish", 1)]
    await pool.idle(30)
    assert pool.counts == PoolCounts(submitted=2, done=2)


@pytest.mark.parametrize("blocks", [False, True])
async def test_what_jobs_submit_with_their_last_breath_is_done_too(
    app: Penstock, blocks: bool
) -> None:
    begun, seen = asyncio.Event(), list[str]()
    pool = app.local_pool()
    phases = gathered(app, WorkerStopping)

    async def track() -> None:
        await asyncio.sleep(0.05)
        seen.append("tracked")

    def track_blocking() -> None:
        threading.Event().wait(0.05)
        seen.append("tracked")

    @app.task
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            pool.submit(track_blocking if blocks else track)

    worker = worker_of(app, finish=0)
    await worker.start()
    await app.enqueue(endless)
    await begun.wait()
    await worker.stop()
    assert seen == ["tracked"]
    assert [phase.phase for phase in phases] == ["finish", "cancel", "pool"]


async def test_a_call_that_is_stuck_costs_a_stop_its_budget_once(app: Penstock) -> None:
    let_pools_close(app, 60.0)
    release = threading.Event()
    pool = app.local_pool()
    dropped, phases = gathered(app, CallsDropped), gathered(app, WorkerStopping)
    pool.submit(release.wait)
    pool.submit(asyncio.Event().wait)
    worker = worker_of(app, pool=0.1)
    await worker.start()
    began = time.monotonic()
    await worker.stop()
    assert [(phase.phase, phase.running) for phase in phases] == [("pool", 2)]
    assert pool.counts.running == 2
    await app.close()
    assert time.monotonic() - began < 30  # once more by the app would be a minute
    assert pool.counts == PoolCounts(submitted=2, dropped=2)
    assert dropped == [CallsDropped("local", 2)]
    release.set()


async def test_whoever_is_in_a_hurry_does_not_wait_for_pools(app: Penstock) -> None:
    let_pools_close(app, 60.0)
    phases = gathered(app, WorkerStopping)
    pool = app.local_pool()
    pool.submit(asyncio.Event().wait)
    worker = worker_of(app, pool=3600)
    await worker.start()
    stopping = asyncio.ensure_future(worker.stop())
    await until(lambda: phases)
    worker.hurry()
    async with asyncio.timeout(30):
        await stopping
    async with asyncio.timeout(30):
        await app.close()
    assert pool.counts.dropped == 1


async def test_a_drain_includes_what_calls_enqueue(app: Penstock) -> None:
    pool = app.local_pool()

    @app.task
    async def first() -> None:
        pool.submit(enqueue_second)

    @app.task
    async def second() -> None: ...

    async def enqueue_second() -> None:
        await asyncio.sleep(0.05)
        await app.enqueue(second)

    await app.enqueue(first)
    tally = await worker_of(app).drain()
    assert tally.completed == 2
    assert pool.counts == PoolCounts(submitted=1, done=1)


async def test_a_call_that_is_stuck_does_not_keep_a_drain(app: Penstock) -> None:
    app.local_pool().submit(asyncio.Event().wait)
    async with asyncio.timeout(30):
        await worker_of(app, pool=0.05).drain()


async def test_a_drain_of_a_test_waits_for_calls(app: Penstock) -> None:
    pool = app.local_pool()

    @app.task
    async def shop() -> None:
        pool.submit(time.sleep, 0.05)

    await app.enqueue(shop)
    for_tests(app)
    await drain(app)
    assert pool.counts == PoolCounts(submitted=1, done=1)


async def test_pools_drain_when_their_app_closes_and_reopen_with_it(database: Database) -> None:
    app = Penstock(database.url)
    pool = app.local_pool()
    refused: list[bool] = []

    async def last() -> None:
        await asyncio.sleep(0.02)
        refused.append(not pool.submit(int))
        await app.paused()  # the database is still there

    for _ in range(2):
        async with app:
            pool.submit(last)
        assert pool.submit(int)
        await pool.idle(30)
    await app.close()
    assert refused == [True, True]
    assert pool.counts == PoolCounts(submitted=6, done=4, dropped=2)


async def test_a_pool_is_known_by_its_name(app: Penstock) -> None:
    pool = app.local_pool("audit", workers=2)
    assert app.local_pool("audit", workers=2) is pool
    assert app.local_pool() is not pool
    with pytest.raises(ConfigError, match="workers=2, slots=1024, with which the pool was made"):
        app.local_pool("audit")


async def test_a_thread_submits_to_the_loop_of_the_app(app: Penstock) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def track() -> None:
        loops.append(asyncio.get_running_loop())
        await app.paused()

    pool = app.local_pool()
    assert await asyncio.to_thread(pool.submit, track)
    await pool.idle(30)
    assert loops == [asyncio.get_running_loop()]
    assert pool.counts.done == 1


def test_sync_close_waits_for_the_calls_of_its_pool(database: Database) -> None:
    app = Penstock(database.url)
    pool = app.local_pool()
    seen: list[object] = []

    async def on_loop() -> None:
        await asyncio.sleep(0.02)
        seen.append(await app.paused())

    def in_thread() -> None:
        threading.Event().wait(0.02)
        seen.append(app.sync.paused())

    with app.sync:
        pool.submit(on_loop)
        pool.submit(in_thread)
    assert seen == [[], []]
    pool.submit(on_loop)  # without `open`: on a loop that is started for it, as for app.sync
    app.sync.close()
    assert pool.counts == PoolCounts(submitted=3, done=3)
    assert "penstock sync" not in {thread.name for thread in threading.enumerate()}


def test_a_loop_takes_the_app_over_from_blocking_code_with_calls(database: Database) -> None:
    app = Penstock(database.url)
    pool = app.local_pool()
    go_on = threading.Event()

    async def slow() -> None:
        await asyncio.to_thread(go_on.wait)
        await app.paused()

    async def main() -> None:
        opening = asyncio.ensure_future(app.open())
        await asyncio.sleep(0)
        go_on.set()
        async with await opening:
            pool.submit(app.paused)

    app.sync.open()
    pool.submit(slow)
    asyncio.run(main())
    assert pool.counts == PoolCounts(submitted=2, done=2)
