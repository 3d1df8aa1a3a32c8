"""Items that are stopped: each alone, while the others of its call go on."""

import asyncio
import os
import threading

import asyncpg
import pytest

from penstock import Batch, BatchContext, Fixed, Item, Penstock, task
from tests.fixtures.until import until
from tests.fixtures.worker import ghost, queue_state, reaches, worker_of, worker_state
from tests.worker.test_microbatch import LONG, Calls

pytestmark = [pytest.mark.usefixtures("led_elsewhere"), pytest.mark.any_pooler]


class Held:
    """A task whose calls go on when they are told to."""

    def __init__(self, app: Penstock, size: int) -> None:
        self.items: list[Item[int]] = []
        self.go_on = asyncio.Event()
        self.was_cancelled = asyncio.Event()

        @app.task(batch=Batch(size=size, linger=LONG), name="held", retry=Fixed(3600))
        async def held(items: list[Item[int]]) -> list[int]:
            self.items = items
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.was_cancelled.set()
                raise
            return [item.value for item in items]

        self.task = held

    async def begun(self, size: int) -> None:
        await until(lambda: len(self.items) == size, what="the call")

    @property
    def cancelled(self) -> list[bool]:
        return [item.ctx.cancelled for item in self.items]


async def test_each_item_has_its_own_timeout(app: Penstock) -> None:
    held = Held(app, 3)
    jobs = [
        await app.enqueue(held.task.options(timeout=timeout), number)
        for number, timeout in enumerate((30, 0.05, None))
    ]
    async with worker_of(app):
        late = await reaches(app, jobs[1], "scheduled")
        assert (late.errors[0].kind, late.failures) == ("timeout", 1)
        assert held.cancelled == [False, True, False]
        assert not held.was_cancelled.is_set()
        held.go_on.set()
        assert [await app.wait(job, timeout=20) for job in (jobs[0], jobs[2])] == [0, 2]
    assert (await app.get(jobs[1])).state == "scheduled"


async def test_linger_does_not_count_towards_the_timeout(app: Penstock) -> None:
    calls = Calls(app, Batch(size=2, linger=0.3), timeout=0.1)
    async with worker_of(app):
        assert await app.wait(await app.enqueue(calls.task, 1), timeout=20) == 2


async def test_a_cancelled_item_is_dropped_and_the_others_go_on(app: Penstock) -> None:
    held = Held(app, 3)
    jobs = await app.enqueue_many(held.task.prepare(number) for number in range(3))
    async with worker_of(app):
        await held.begun(3)
        await app.cancel(jobs[0])
        await until(lambda: held.cancelled == [True, False, False], what="the item to be told")
        held.go_on.set()
        assert [await app.wait(job, timeout=20) for job in jobs[1:]] == [1, 2]
    assert (await app.get(jobs[0])).state == "cancelled"


async def test_a_call_is_cancelled_when_all_its_items_are(app: Penstock) -> None:
    held = Held(app, 2)
    jobs = await app.enqueue_many(held.task.prepare(number) for number in range(2))
    async with worker_of(app) as worker:
        await held.begun(2)
        for job in jobs:
            await app.cancel(job)
        await asyncio.wait_for(held.was_cancelled.wait(), 20)
        await until(lambda: not queue_state(worker).used, what="the slot to be free")
        assert not worker_state(worker).running


async def test_an_item_that_is_cancelled_while_it_waits_is_forgotten(app: Penstock) -> None:
    calls = Calls(app, Batch(size=2, linger=LONG))
    async with worker_of(app) as worker:
        first = await app.enqueue(calls.task, 1)
        await until(lambda: len(queue_state(worker).grouped) == 1, what="it to be gathered")
        await app.cancel(first)
        await until(lambda: not queue_state(worker).grouped, what="it to be forgotten")
        jobs = await app.enqueue_many(calls.of(2, 3))
        assert await app.wait(jobs[1], timeout=20) == 6
    assert calls.made == [[2, 3]]


async def test_thread_whose_items_all_stopped_keeps_its_slot(app: Penstock) -> None:
    release = threading.Event()
    told: list[bool] = []

    @app.task(batch=Batch(size=2, linger=LONG), timeout=0.5, max_attempts=1)
    def stuck(items: list[Item[int]]) -> list[None]:
        release.wait(60)
        told.extend(item.ctx.cancelled for item in items)
        return [None, None]

    async with worker_of(app, {"default": 1}) as worker:
        jobs = await app.enqueue_many([stuck.prepare(1), stuck.prepare(2)])
        for job in jobs:
            assert (await reaches(app, job, "failed")).errors[0].kind == "timeout"
        assert queue_state(worker).free == 0
        assert set(worker_state(worker).overdue) == {int(job.id) for job in jobs}
        release.set()
        await until(lambda: queue_state(worker).free == 1, what="the slot")
    assert told == [True, True]


# A stop of the worker


async def test_items_that_wait_are_given_back_at_once_by_a_stop(app: Penstock) -> None:
    calls = Calls(app, Batch(size=3, linger=LONG))
    worker = worker_of(app)
    await worker.start()
    jobs = await app.enqueue_many(calls.of(1, 2))
    await until(lambda: len(queue_state(worker).grouped) == 2, what="both")
    await worker.stop()
    for job in [await app.get(job) for job in jobs]:
        assert (job.state, job.failures, job.losses) == ("ready", 0, 0)
    assert calls.made == []


@pytest.mark.parametrize("key", ["openai", "queue:default"])
async def test_items_that_wait_and_are_given_back_have_used_no_starts(
    app: Penstock, connection: asyncpg.Connection, key: str
) -> None:
    await app.set_limit(key, rate=0.001, burst=3)
    calls = Calls(app, Batch(size=9, linger=LONG), limits="openai")
    async with worker_of(app, lease=60, heartbeat=1) as worker:
        await app.enqueue_many(calls.of(1, 2, 3))
        await until(lambda: len(queue_state(worker).grouped) == 3, what="items")
        assert await connection.fetchval("SELECT round(level) FROM penstock.bucket") == 0
    assert await connection.fetchval("SELECT round(level) FROM penstock.bucket") == 3


async def test_a_call_may_finish_before_the_worker_leaves(app: Penstock) -> None:
    held = Held(app, 2)
    worker = worker_of(app, finish=60)
    await worker.start()
    jobs = await app.enqueue_many(held.task.prepare(number) for number in range(2))
    await held.begun(2)
    stopping = asyncio.ensure_future(worker.stop())
    await until(lambda: worker_state(worker).stopping, what="the stop to begin")
    held.go_on.set()
    await stopping
    assert [(await app.get(job)).state for job in jobs] == ["completed", "completed"]


async def test_unfinished_call_is_cancelled_and_its_items_released(app: Penstock) -> None:
    held = Held(app, 2)
    worker = worker_of(app, finish=0.05)
    await worker.start()
    jobs = await app.enqueue_many(held.task.prepare(number) for number in range(2))
    await held.begun(2)
    await worker.stop()
    assert held.was_cancelled.is_set()
    for job in [await app.get(job) for job in jobs]:
        assert (job.state, job.failures) == ("ready", 0)


async def test_a_drain_waits_for_those_that_linger(app: Penstock) -> None:
    calls = Calls(app, Batch(size=64, linger=0.2))
    await app.enqueue_many(calls.of(1, 2, 3))
    assert (await worker_of(app).drain()).completed == 3
    assert calls.made == [[1, 2, 3]]


async def test_a_worker_that_loses_its_lease_forgets_its_items(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    held, calls = Held(app, 2), Calls(app, Batch(size=9, linger=LONG))
    async with worker_of(app) as worker:
        await app.enqueue_many([held.task.prepare(1), held.task.prepare(2), *calls.of(1)])
        await held.begun(2)
        await until(lambda: queue_state(worker).grouped, what="the third")
        await connection.execute("DELETE FROM penstock.lease")
        await asyncio.wait_for(held.was_cancelled.wait(), 20)
        assert held.cancelled == [True, True]
        held.go_on.set()


@pytest.mark.told
async def test_an_item_that_lost_its_worker_runs_in_a_call_of_its_own(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    calls = Calls(app, Batch(size=4, linger=0.05))
    jobs = await app.enqueue_many(calls.of(1, 2))
    await ghost(connection)
    async with worker_of(app):
        assert [await app.wait(job, timeout=20) for job in jobs] == [2, 4]
    assert sorted(calls.made) == [[1], [2]]


async def test_limits_count_items(app: Penstock) -> None:
    await app.set_limit("model", slots=3)
    calls = Calls(app, Batch(size=64, linger=0.05), limits="model")
    await app.enqueue_many(calls.of(*range(9)))
    assert (await worker_of(app).drain()).completed == 9
    assert 1 < max(calls.sizes) <= 3


@task(batch=Batch(size=4, linger=0.05), max_attempts=1)
async def whereabouts(ctx: BatchContext, items: list[Item[int]]) -> list[list[int] | Exception]:
    """Which process, and how many are in the call."""
    return [
        ValueError("told to") if item.value < 0 else [os.getpid(), len(items)] for item in items
    ]


async def test_one_that_can_be_found_by_a_child_process_runs_there(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    app.include(whereabouts)
    jobs = await app.enqueue_many(whereabouts.prepare(number) for number in (1, 2, -3))
    await ghost(connection)
    fresh = await app.enqueue(whereabouts, 4)
    async with worker_of(app):
        assert await app.wait(fresh, timeout=20) == [os.getpid(), 1]
        for job in jobs[:2]:
            process, items = await app.wait(job, timeout=20)
            assert (process != os.getpid(), items) == (True, 1)
        assert (await reaches(app, jobs[2], "failed")).errors[-1].message == "told to"
