"""What is seen of workers."""

import os
import socket

import asyncpg

from penstock import Batch, Item, Penstock
from penstock.insights import Count, Insights
from tests.fixtures.until import until
from tests.fixtures.worker import ghost, worker_of


async def test_a_worker_shows_where_it_is_and_what_it_serves(
    app: Penstock, insights: Insights
) -> None:
    @app.task
    async def send() -> None: ...

    async with worker_of(app, {"mail": 5, "documents": 2}, name="first"):

        async def leading():
            found = await insights.workers()
            # Heard of a moment ago: unless the machine stood still, it always is.
            return found if found and found[0].is_leader and found[0].silent < 2 else None

        [worker] = await until(leading, what="the worker to lead")
    assert (worker.name, worker.host, worker.pid) == ("first", socket.gethostname(), os.getpid())
    assert worker.queues == {"mail": 5, "documents": 2}
    assert worker.slots == 7
    assert worker.tasks == (send.name,)
    assert worker.is_alive
    assert worker.running == Count(0)


async def test_a_slot_has_room_for_all_items_of_a_call(app: Penstock, insights: Insights) -> None:
    @app.task(batch=Batch(size=64), queue="embed")
    async def embed(items: list[Item[str]]) -> list[None]: ...

    async with worker_of(app, {"embed": 4, "mail": 2}):
        [worker] = await insights.workers()
    assert worker.calls == {"embed": 64}
    assert (worker.slots, worker.room) == (6, 4 * 64 + 2)


async def test_a_worker_that_is_lost_is_still_seen_with_what_it_had(
    app: Penstock, insights: Insights, connection: asyncpg.Connection
) -> None:
    @app.task
    async def send() -> None: ...

    await app.enqueue_many([send.prepare() for _ in range(3)])
    await ghost(connection, seconds=0.01)

    async def lost():
        [worker] = await insights.workers()
        return None if worker.is_alive else worker

    worker = await until(lost, what="the lease to end")
    assert (worker.name, worker.running) == ("ghost", Count(3))
    assert (worker.host, worker.queues, worker.is_busy) == (None, {}, False)


async def test_a_lease_with_anything_in_its_info_is_seen(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    info = '{"queues": ["not", "as", "ours"], "pid": "seven"}'
    await connection.fetchval("SELECT penstock.open_lease_v1('other', 60, $1)", info)
    [worker] = await insights.workers()
    assert (worker.name, worker.queues, worker.pid) == ("other", {}, None)


LEASES = """
INSERT INTO penstock.lease (worker, expires_at, created_at)
SELECT 'w' || n, now() + CASE WHEN n <= 3 THEN -1 ELSE 1 END * interval '1 minute',
       now() + n * interval '1 s'
  FROM generate_series(1, 10) AS n
"""


async def test_worker_page_shows_living_workers_first(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await connection.execute(LEASES)
    page = await insights.worker_page(limit=5)
    assert [worker.name for worker in page.workers] == ["w4", "w5", "w6", "w7", "w8"]
    assert (page.alive, page.left_out, page.living_left_out) == (7, 5, 2)
    whole = await insights.worker_page(limit=10)
    assert [worker.is_alive for worker in whole.workers].count(True) == 7
    assert (whole.left_out, whole.living_left_out) == (0, 0)
    overview = await insights.overview()
    assert (len(overview.workers), overview.workers_left_out) == (10, 0)
