"""Waking the workers: at once when it is quiet, together when it is busy."""

import asyncio
import json
import time
from typing import Any

import pytest

from penstock import Penstock
from penstock.connect.wake import DELIVERY_TIME_S, NOTIFY_INTERVAL_S
from penstock.store.enqueue import Stored
from tests.fixtures.app import wake_of
from tests.fixtures.database import Database
from tests.fixtures.notifications import hearing
from tests.fixtures.until import until


@pytest.fixture
def note(app: Penstock):
    @app.task(name="note")
    async def note() -> None: ...

    return note


async def test_first_enqueue_after_a_pause_notifies_at_once(
    app: Penstock, note, database: Database
) -> None:
    async with hearing(database) as heard:
        await app.enqueue(note.options(queue="mail", priority=3))
        [payload] = await heard.all()
        assert json.loads(payload)[:3] == ["mail", "", 3]


async def test_many_enqueues_in_a_row_share_notifications(
    app: Penstock, note, database: Database
) -> None:
    async with hearing(database) as heard:
        began = time.monotonic()
        for _ in range(200):
            await app.enqueue(note)
        await app.close()
        assert 1 <= len(await heard.all(1)) <= most_in(time.monotonic() - began)


async def test_the_last_of_a_burst_is_announced_too(
    app: Penstock, note, database: Database
) -> None:
    """What says where to look is no later than any of the jobs it stands for."""
    async with hearing(database) as heard:
        jobs = [await app.get(await app.enqueue(note)) for _ in range(20)]
        payloads = await heard.all(2)
        begins = [float(json.loads(payload)[3]) for payload in payloads]
        ready = [job.ready_at.timestamp() for job in jobs if job.ready_at]
        assert begins[0] <= ready[0]
        assert begins[1] <= ready[1]


async def test_word_that_was_long_on_its_way_is_sent_again(
    app: Penstock, note, database: Database
) -> None:
    """Or workers would begin to look behind the jobs it stands for."""
    announce, ages = app.store.notify_ready, []

    async def slow_at_first(on: Any, lines: Any, age: float) -> None:
        ages.append(age)
        await asyncio.sleep(2 * DELIVERY_TIME_S if len(ages) == 1 else 0)
        await announce(on, lines, age)

    app.store.notify_ready = slow_at_first  # type: ignore[method-assign]
    async with hearing(database) as heard:
        jobs = await asyncio.gather(*(app.enqueue(note) for _ in range(8)))
        ready = [(await app.get(job)).ready_at for job in jobs]
        await until(lambda: len(ages) > 1, what="the word to be sent again")
        await app.close()
        begins = [float(json.loads(payload)[3]) for payload in await heard.all(3)]
        assert ages[1] > ages[0] + 2 * DELIVERY_TIME_S
        assert min(begins[1:]) <= min(moment.timestamp() for moment in ready if moment)


async def test_close_sends_a_notification_that_it_interrupts(
    app: Penstock, note, database: Database
) -> None:
    announce, under_way, told = app.store.notify_ready, asyncio.Event(), []

    async def stuck_at_first(on: Any, lines: Any, age: float) -> None:
        if not under_way.is_set():
            under_way.set()
            await asyncio.Event().wait()
        await announce(on, lines, age)
        told.extend(lines)

    app.store.notify_ready = stuck_at_first  # type: ignore[method-assign]
    await asyncio.gather(*(app.enqueue(note) for _ in range(8)))
    await under_way.wait()
    await app.close()
    assert told == [("default", "", 0)]


async def test_each_line_is_announced(app: Penstock, note, database: Database) -> None:
    async with hearing(database) as heard:
        for queue in ("a", "b", "a", "b"):
            await app.enqueue(note.options(queue=queue))
        await app.close()
        queues = [json.loads(payload)[0] for payload in await heard.all(2)]
        assert set(queues) == {"a", "b"}


async def test_a_later_job_is_announced_to_the_promoter(
    app: Penstock, note, database: Database
) -> None:
    async with hearing(database, "due") as due, hearing(database) as ready:
        enqueued = await app.enqueue(note.options(delay=60))
        job = await app.get(enqueued)
        assert job.run_at is not None
        assert float((await due.all(1))[0]) == pytest.approx(job.run_at.timestamp(), abs=0.001)
        assert await ready.all() == []


async def test_many_later_jobs_share_notifications_too(
    app: Penstock, note, database: Database
) -> None:
    async with hearing(database, "due") as due:
        began = time.monotonic()
        for _ in range(200):
            await app.enqueue(note.options(delay=60))
        await app.close()
        assert 1 <= len(await due.all(1)) <= most_in(time.monotonic() - began)


def most_in(seconds: float) -> float:
    """How many notifications a line may send in that time; 200 enqueues take a quarter second."""
    return 3 + seconds / NOTIFY_INTERVAL_S


def test_next_loop_notifies_after_one_ended_with_some_unsent(database: Database) -> None:
    app = Penstock(database.url)
    requests = [app.task(name="note")(_note).prepare()]

    async def leave_word() -> None:
        wake_of(app).notify_later(requests, Stored([1], None, None, None), time.monotonic())
        await asyncio.sleep(0)

    async def should_notify_inline() -> bool:
        return wake_of(app).should_notify_inline(requests)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_word())
    unsent = asyncio.all_tasks(loop)
    loop.close()
    assert asyncio.run(should_notify_inline())
    for task in unsent:
        task._log_destroy_pending = False  # type: ignore[attr-defined]


async def _note() -> None: ...
