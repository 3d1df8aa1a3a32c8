"""Working off what there is, and leaving."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from asyncpg.transaction import Transaction

from penstock import Cancel, Context, Discard, Fixed, Penstock, Snooze, task
from penstock.store.batches import Batches, Folded
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

pytestmark = pytest.mark.any_pooler


@pytest.fixture
def note(app: Penstock):
    @app.task(name="note")
    async def note(text: str = "") -> str:
        return text

    return note


async def test_an_empty_queue_is_drained_at_once(app: Penstock) -> None:
    tally = await worker_of(app).drain(seconds=60)
    assert tally.as_dict() == dict.fromkeys(tally.as_dict(), 0)


async def test_everything_ready_is_worked_off(app: Penstock, note) -> None:
    await app.enqueue_many(note.prepare(str(n)) for n in range(2500))
    await app.enqueue_many(note.options(queue="other", priority=3).prepare() for _ in range(50))
    tally = await worker_of(app, ["default", "other"]).drain(seconds=60)
    assert tally.completed == 2550
    assert (await app.list(state=["ready", "running"])).jobs == ()


async def test_jobs_that_jobs_enqueue_are_included(app: Penstock) -> None:
    @app.task(name="split")
    async def split(depth: int) -> None:
        if depth:
            await app.enqueue_many(split.prepare(depth - 1) for _ in range(2))

    await app.enqueue(split, 5)
    tally = await worker_of(app).drain(seconds=60)
    assert tally.completed == 2**6 - 1


async def test_a_limit_is_kept_to_the_job(app: Penstock, note) -> None:
    await app.enqueue_many(note.prepare() for _ in range(50))
    tally = await worker_of(app, {"default": 8}).drain(limit=13)
    assert tally.completed == 13
    assert len((await app.list(state="ready")).jobs) == 37


async def test_what_is_due_later_is_left(app: Penstock, note) -> None:
    later = await app.enqueue(note.options(delay=60))
    await app.enqueue(note)
    tally = await worker_of(app).drain(seconds=60)
    assert tally.completed == 1
    assert (await app.get(later)).state == "scheduled"


async def test_time_runs_out(app: Penstock) -> None:
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    enqueued = await app.enqueue(endless)
    # A busy machine may begin nothing in the first of them.
    for seconds in (0.3, 3.0, 30.0):
        async with asyncio.timeout(60):
            tally = await worker_of(app, finish=0).drain(seconds=timedelta(seconds=seconds))
        if started.is_set():
            break
    assert started.is_set()
    assert (tally.settled, tally.released) == (0, 1)
    assert (await app.get(enqueued)).state == "ready"


async def test_the_counts_are_true(app: Penstock) -> None:
    @task(name="elsewhere")
    async def elsewhere() -> None: ...

    @app.task(retry=Fixed(60))
    async def speak(word: str) -> object:
        match word:
            case "snooze":
                return Snooze(60)
            case "cancel":
                return Cancel()
            case "discard":
                return Discard()
            case "retry":
                raise ValueError
        return word

    words = ["done"] * 5 + ["snooze"] * 4 + ["cancel"] * 3 + ["discard"] * 2 + ["retry"]
    await app.enqueue_many(speak.prepare(word) for word in words)
    await app.enqueue(elsewhere)
    tally = await worker_of(app).drain(seconds=60)
    assert tally.as_dict() == {
        "completed": 5,
        "snoozed": 4,
        "blocked": 0,
        "cancelled": 3,
        "failed": 2,
        "retried": 1,
        "parked": 1,
        "released": 0,
        "refused": 0,
        "unwritten": 0,
    }
    assert tally.settled == 15


async def test_a_job_that_asks_to_run_again_at_once_is_included(app: Penstock) -> None:
    @app.task
    async def again(ctx: Context) -> object:
        return Snooze(0) if ctx.attempt < 5 else ctx.attempt

    enqueued = await app.enqueue(again)
    await worker_of(app).drain(seconds=60)
    assert (await app.get(enqueued)).result == 5


async def test_a_paused_queue_is_not_waited_for(app: Penstock, note) -> None:
    await app.pause("default")
    await app.enqueue(note)
    other = await app.enqueue(note.options(queue="other"))
    async with asyncio.timeout(30):
        tally = await worker_of(app, ["default", "other"]).drain()
    assert tally.completed == 1
    assert (await app.get(other)).state == "completed"


async def test_a_drain_can_be_asked_to_stop(app: Penstock) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        started.set()
        await go_on.wait()

    await app.enqueue_many(slow.prepare() for _ in range(3))
    worker = worker_of(app, {"default": 1})
    draining = asyncio.ensure_future(worker.drain())
    await started.wait()
    worker.ask_to_stop()
    go_on.set()
    tally = await draining
    assert tally.completed == 1


@pytest.fixture
async def held(app: Penstock, note, connection: asyncpg.Connection) -> AsyncIterator[Transaction]:
    """A batch of one job with a callback at its end, whose row is held as a fold holds it."""
    async with app.batch(on_end=note.prepare("the end")) as batch:
        await batch.enqueue(note)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT FROM penstock.batch FOR NO KEY UPDATE")
    yield transaction
    if connection.is_in_transaction():
        await transaction.rollback()


async def test_a_batch_that_another_folds_is_waited_for(
    app: Penstock, held: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []
    fold = Batches.fold

    async def noted(*args: Any) -> Folded:
        found = await fold(*args)
        refused.extend([found] * found.passed)
        return found

    monkeypatch.setattr(Batches, "fold", noted)
    draining = asyncio.ensure_future(worker_of(app).drain())
    await until(lambda: draining.done() or len(refused) >= 5, what="folds to be refused")
    await held.rollback()
    assert (await draining).completed == 2


async def test_a_batch_that_is_held_on_and_on_is_left(app: Penstock, held: Transaction) -> None:
    async with asyncio.timeout(30):
        tally = await worker_of(app, batch_wait=0.1).drain()
    assert tally.completed == 1
