"""Who gets which job, in which order, and what happens when an answer is lost."""

import asyncio
import threading

import asyncpg
import pytest

from penstock import Penstock
from penstock.telemetry import JobsClaimed
from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import (
    counted,
    drop_notifications,
    gathered,
    queue_state,
    worker_of,
    worker_state,
)


@pytest.fixture
def note(app: Penstock):
    @app.task(name="note")
    async def note(text: str = "") -> str:
        return text

    return note


async def test_a_higher_priority_that_came_later_runs_first(app: Penstock) -> None:
    ran: list[int] = []

    @app.task
    async def note(priority: int) -> None:
        ran.append(priority)

    for priority in (0, -5, 7, 100, 7):
        await app.enqueue(note.options(priority=priority), priority)
    await worker_of(app, {"default": 1}).drain(seconds=60)
    assert ran == [100, 7, 7, 0, -5]


async def test_higher_priority_overtakes_a_running_backlog(app: Penstock) -> None:
    ran: list[str] = []
    first, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow(name: str) -> None:
        ran.append(name)
        first.set()
        await go_on.wait()

    async with worker_of(app, {"default": 1}, rescan=3600) as worker:
        jobs = await app.enqueue_many(slow.prepare(f"low {n}") for n in range(10))
        await first.wait()
        urgent = await app.enqueue(slow.options(priority=50), "urgent")
        await until(lambda: ("", 50) in queue_state(worker).cursors, what="the news to arrive")
        go_on.set()
        await app.wait(urgent, timeout=30)
        await app.wait(jobs[-1], timeout=30)
    assert ran.index("urgent") == 1


async def test_jobs_of_one_priority_run_in_the_order_they_became_ready(app: Penstock) -> None:
    ran: list[int] = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    await app.enqueue_many(note.prepare(number) for number in range(500))
    await worker_of(app, {"default": 3}).drain(seconds=60)
    assert ran == list(range(500))


async def test_two_workers_share_a_queue_and_run_each_job_once(app: Penstock) -> None:
    ran: list[int] = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)
        await asyncio.sleep(0)

    await app.enqueue_many(note.prepare(number) for number in range(2000))
    async with worker_of(app) as one, worker_of(app) as two:
        await until(lambda: len(ran) >= 2000, what="all jobs")
        await until(lambda: one.tally.settled + two.tally.settled == 2000, what="all settles")
    assert sorted(ran) == list(range(2000))


async def test_a_worker_claims_only_as_much_as_it_has_slots_for(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """Slow jobs are left to other workers."""
    started, go_on = asyncio.Semaphore(0), asyncio.Event()

    @app.task
    async def slow() -> None:
        started.release()
        await go_on.wait()

    async with worker_of(app, {"default": 3}):
        await app.enqueue_many(slow.prepare() for _ in range(50))
        for _ in range(3):
            await started.acquire()
        counts = await connection.fetch(
            "SELECT state, count(*) AS jobs FROM penstock.job GROUP BY state ORDER BY state"
        )
        assert [(row["state"], row["jobs"]) for row in counts] == [("ready", 47), ("running", 3)]
        go_on.set()


async def test_a_worker_serves_its_queues_and_no_other(app: Penstock, note) -> None:
    served = [await app.enqueue(note.options(queue=queue), queue) for queue in ("a", "b")]
    other = await app.enqueue(note.options(queue="c"))
    tally = await worker_of(app, ["a", "b"]).drain(seconds=60)
    assert tally.completed == 2
    assert [(await app.get(job)).state for job in served] == ["completed", "completed"]
    assert (await app.get(other)).state == "ready"


# Answers that are lost


async def test_jobs_of_a_lost_claim_reply_run_soon(proxy: Proxy, database: Database) -> None:
    async with Penstock(proxy.url) as far:

        @far.task
        async def note(number: int) -> int:
            return number

        lost = proxy.drop_reply_after("claim_v1")
        async with worker_of(far, reconcile=3600, lease=600, heartbeat=200):
            jobs = await far.enqueue_many(note.prepare(number) for number in range(3))
            await lost.wait()
            assert [await far.wait(job, timeout=30) for job in jobs] == [0, 1, 2]
        for job in jobs:
            found = await far.get(job)
            assert (found.attempt, found.losses, found.failures) == (2, 0, 0)


@pytest.mark.told  # What is released behind the mark of a claim is found so, or by the next rescan.
async def test_reconcile_releases_unknown_jobs_of_the_lease(
    app: Penstock, note, connection: asyncpg.Connection
) -> None:
    """A job that the database takes for running here, and nobody here knows."""
    worker = worker_of(app, reconcile=0.1, rescan=3600)
    await app.pause("default")
    enqueued = await app.enqueue(note, "found")
    async with worker:
        await until(lambda: worker_state(worker).lease, what="a lease")
        await connection.execute(
            "UPDATE penstock.job SET state = 'running', lease = $1, token = gen_random_uuid(), "
            "attempt = 1, attempted_at = clock_timestamp()",
            worker_state(worker).lease,
        )
        await app.resume("default")
        assert await app.wait(enqueued, timeout=30) == "found"


async def test_what_runs_here_is_no_stranger(app: Penstock) -> None:
    started, go_on, runs = asyncio.Event(), asyncio.Event(), []

    @app.task
    async def slow() -> None:
        runs.append(1)
        started.set()
        await go_on.wait()

    worker = worker_of(app, reconcile=0.02)
    async with worker:
        enqueued = await app.enqueue(slow)
        await started.wait()
        looks = counted(app, "release")
        await until(lambda: len(looks) >= 3, what="some looks")
        assert (await app.get(enqueued)).state == "running"
        go_on.set()
        await app.wait(enqueued, timeout=30)
    assert runs == [1]


# Marks


async def late_job(
    app: Penstock, note, connection: asyncpg.Connection, *, notify: bool
) -> tuple[str, asyncpg.transaction.Transaction]:
    """A job in an open transaction, ready since before all others that will follow."""
    transaction = connection.transaction()
    await transaction.start()
    late = await app.inside(connection, notify=notify).enqueue(note, "late")
    return late.id, transaction


@pytest.mark.told
async def test_notification_reveals_a_job_committed_behind_the_cursor(
    app: Penstock, note, connection: asyncpg.Connection
) -> None:
    async with worker_of(app, rescan=3600, poll=3600):
        late, transaction = await late_job(app, note, connection, notify=True)
        for _ in range(3):
            await app.wait(await app.enqueue(note), timeout=30)
        await transaction.commit()
        assert await app.wait(late, timeout=30) == "late"


async def test_without_a_notification_it_is_found_by_the_next_look(
    app: Penstock, note, connection: asyncpg.Connection
) -> None:
    async with worker_of(app, rescan=0.2):
        late, transaction = await late_job(app, note, connection, notify=False)
        for _ in range(3):
            await app.wait(await app.enqueue(note), timeout=30)
        await transaction.commit()
        assert await app.wait(late, timeout=30) == "late"


# Without notifications


async def test_looking_alone_suffices(app: Penstock, note, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a pooler that loses notifications everything is found, a poll later."""
    drop_notifications(monkeypatch)
    async with worker_of(app, poll=0.05, rescan=3600):
        for _ in range(3):
            await app.wait(await app.enqueue(note), timeout=30)
        assert await app.wait(await app.enqueue(note.options(delay=0.1), "later"), timeout=30)


@pytest.mark.told
async def test_claims_go_on_without_further_notifications(app: Penstock) -> None:
    claimed = gathered(app, JobsClaimed)
    done = threading.Event()

    @app.task
    async def note(number: int) -> None:
        if number == 299:
            done.set()

    async with worker_of(app, {"default": 10}, rescan=3600, poll=3600, claim_most=10):
        await app.enqueue_many(note.prepare(number) for number in range(300))
        await until(done.is_set, what="all to be done")
    assert sum(event.count for event in claimed) == 300
    assert max(event.count for event in claimed) <= 10
