"""Tasks that take many jobs in one call."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock import (
    Batch,
    BatchContext,
    Cancel,
    Context,
    Discard,
    Done,
    Fixed,
    Item,
    Penstock,
    Retry,
    Snooze,
)
from tests.fixtures.until import until
from tests.fixtures.worker import queue_state, reaches, worker_of, worker_state

pytestmark = [pytest.mark.usefixtures("led_elsewhere"), pytest.mark.any_pooler]

# So long that a group which is sent was full, or it would not have been.
LONG = 30.0


class Calls:
    """A micro-batched task that doubles numbers, and the calls that were made of it."""

    def __init__(self, app: Penstock, batch: Batch, **values: Any) -> None:
        self.made: list[list[int]] = []
        self.bad: set[int] = set()

        @app.task(batch=batch, name="double", retry=Fixed(3600), **values)
        async def double(items: list[Item[int]]) -> list[int]:
            numbers = [item.value for item in items]
            self.made.append(numbers)
            if found := self.bad & set(numbers):
                raise ValueError(f"{found} in {len(numbers)} items")
            return [2 * number for number in numbers]

        self.task = double

    @property
    def sizes(self) -> list[int]:
        return [len(each) for each in self.made]

    def of(self, *numbers: int, **options: Any) -> list[Any]:
        return [self.task.options(**options).prepare(number) for number in numbers]


class Rows:
    """What an array looks like: it has a length and places, and is no sequence to Python."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> Any:
        return self._rows[place]


# Groups


async def test_jobs_share_a_call_and_each_has_its_own_result(app: Penstock) -> None:
    calls = Calls(app, Batch(size=4, linger=LONG))
    jobs = await app.enqueue_many(calls.of(*range(8)))
    async with worker_of(app):
        assert [await app.wait(job, timeout=20) for job in jobs] == [2 * n for n in range(8)]
    assert calls.made == [[0, 1, 2, 3], [4, 5, 6, 7]]


async def test_partial_group_is_called_after_its_linger(app: Penstock) -> None:
    calls = Calls(app, Batch(size=64, linger=0.1))
    async with worker_of(app):
        jobs = await app.enqueue_many(calls.of(1, 2, 3))
        assert await app.wait(jobs[0], timeout=20) == 2
    assert calls.made == [[1, 2, 3]]


async def test_a_group_is_filled_across_claims(app: Penstock) -> None:
    calls = Calls(app, Batch(size=3, linger=LONG))
    async with worker_of(app) as worker:
        for number in (1, 2):
            await app.enqueue(calls.task, number)
            await until(
                lambda number=number: len(queue_state(worker).grouped) == number,
                what="it to be gathered",
            )
        assert worker_state(worker).jobs
        assert queue_state(worker).used == 0
        job = await app.enqueue(calls.task, 3)
        assert await app.wait(job, timeout=20) == 6
    assert calls.made == [[1, 2, 3]]


async def test_one_call_serves_several_tenants_and_batches(app: Penstock) -> None:
    calls = Calls(app, Batch(size=6, linger=LONG))
    async with app.batch() as first, app.batch() as second:
        await first.enqueue_many(calls.of(1, 2, tenant="acme"))
        await second.enqueue_many(calls.of(3, 4, tenant="zeta"))
        await app.enqueue_many(calls.of(5, 6, tenant="acme"))
    async with worker_of(app):
        status = await app.wait_batch(first, timeout=20)
        assert (status.completed, (await app.wait_batch(second, timeout=20)).completed) == (2, 2)
    assert calls.sizes == [6]


@pytest.mark.parametrize(
    ("key", "groups"),
    [
        ("tenant", [[1, 2], [3, 4]]),
        ("lane", [[1, 2], [3, 4]]),
        (lambda number: number % 2, [[1, 3], [2, 4]]),
    ],
)
async def test_items_of_different_keys_do_not_share_a_call(
    app: Penstock, key: Any, groups: list[list[int]]
) -> None:
    await app.set_queue("default", fair=True)
    calls = Calls(app, Batch(size=2, linger=LONG, key=key))
    await app.enqueue_many(calls.of(1, 2, tenant="acme") + calls.of(3, 4, tenant="zeta"))
    async with worker_of(app, {"default": 1}):
        await until(lambda: len(calls.made) == 2, what="both calls")
    assert sorted(map(sorted, calls.made)) == groups


async def test_a_key_that_cannot_be_made_is_the_failure_of_its_item(app: Penstock) -> None:
    calls = Calls(app, Batch(size=2, linger=0, key=lambda number: 1 / number), max_attempts=1)
    good, bad = await app.enqueue_many(calls.of(1, 0))
    async with worker_of(app):
        assert (await reaches(app, bad, "failed")).errors[0].type == "ZeroDivisionError"
        assert await app.wait(good, timeout=20) == 2


async def test_a_key_that_cannot_be_compared_says_what_to_do(app: Penstock) -> None:
    calls = Calls(app, Batch(size=2, linger=0, key=lambda number: [number]), max_attempts=1)
    job = await app.enqueue(calls.task, 1)
    await worker_of(app).drain()
    message = (await app.get(job)).errors[0].message
    assert "batch.key of double returned a list" in message
    assert "it must be hashable" in message


async def test_a_task_with_another_setting_has_calls_of_its_own(app: Penstock) -> None:
    calls = Calls(app, Batch(size=2, linger=LONG))
    plain: list[int] = []

    @app.task
    async def single(number: int) -> None:
        plain.append(number)

    await app.enqueue_many([*calls.of(1), single.prepare(7), *calls.of(2), single.prepare(8)])
    async with worker_of(app, {"default": 1}):
        await until(lambda: calls.made and len(plain) == 2, what="all of them")
    assert (calls.made, plain) == ([[1, 2]], [7, 8])


async def test_small_lane_shares_the_first_calls_with_a_large_one(app: Penstock) -> None:
    await app.set_queue("default", fair=True)
    order: list[list[str]] = []

    @app.task(batch=Batch(size=64, linger=LONG))
    async def mark(items: list[Item[int]]) -> list[None]:
        order.append([item.ctx.job.tenant for item in items])
        return [None] * len(items)

    await app.enqueue_many(mark.options(tenant="big").prepare(n) for n in range(10_000))
    await app.enqueue_many(mark.options(tenant="small").prepare(n) for n in range(10))
    async with worker_of(app, {"default": 2}):
        await until(lambda: len(order) >= 2, what="the first calls")
    assert sum(call.count("small") for call in order[:2]) == 10
    assert len(order[0]) == 64


async def test_items_have_their_turn_beside_jobs_that_have_a_call_each(app: Penstock) -> None:
    calls, plain = Calls(app, Batch(size=64, linger=0.01)), 0

    @app.task
    async def single(number: int) -> None:
        nonlocal plain
        await asyncio.sleep(0)
        plain += 1

    await app.enqueue_many(single.prepare(number) for number in range(50))
    await app.enqueue_many(calls.of(1, 2))
    await app.enqueue_many(single.prepare(number) for number in range(3000))
    async with worker_of(app, {"default": 1}):
        await until(lambda: calls.made, what="the items")
        assert plain < 3000
    assert calls.made == [[1, 2]]


async def test_items_that_find_no_slot_go_back_for_others(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many keys and few slots: what is here waits for no other worker."""
    release = asyncio.Event()

    @app.task(batch=Batch(size=4, linger=0, key=lambda number: number))
    async def held(items: list[Item[int]]) -> list[None]:
        await release.wait()
        return [None] * len(items)

    jobs = await app.enqueue_many(held.prepare(number) for number in range(4))
    async with worker_of(app, {"default": 1}, items_wait=0.05) as worker:
        await until(lambda: worker.tally.released == 3, what="three of them to go back")
        states = [(await app.get(job)).state for job in jobs]
        assert sorted(states) == ["ready", "ready", "ready", "running"]
        release.set()
        for job in jobs:
            await app.wait(job, timeout=20)


async def test_full_call_starts_as_soon_as_a_slot_is_free(app: Penstock) -> None:
    """A call holds one slot however many items it has; what waits meanwhile is gathered."""
    gate, sizes = asyncio.Semaphore(0), []

    @app.task(batch=Batch(size=8, linger=0.02))
    async def held(items: list[Item[int]]) -> list[None]:
        sizes.append(len(items))
        await gate.acquire()
        return [None] * len(items)

    async with worker_of(app, {"default": 2}) as worker:
        await app.enqueue_many(held.prepare(n) for n in range(16))
        await until(lambda: sizes == [8, 8], what="two calls")
        assert queue_state(worker).used == 2
        for number in range(8):
            await app.enqueue(held, number)
        gate.release()
        await until(lambda: len(sizes) == 3, what="the third call")
        assert sizes[2] == 8
        for _ in range(4):
            gate.release()


# Outcomes


async def test_each_item_may_come_to_something_else(app: Penstock) -> None:
    said: list[Any] = [
        "a value",
        Done({"a": 1}),
        Retry(after=3600, error="not yet"),
        Snooze(3600, "later"),
        Cancel("not wanted"),
        Discard("never"),
        ValueError("its own"),
        None,
    ]

    @app.task(batch=Batch(size=8, linger=LONG), max_attempts=1)
    async def say(items: list[Item[int]]) -> list[Any]:
        return [said[item.value] for item in items]

    jobs = await app.enqueue_many(say.prepare(number) for number in range(8))
    await worker_of(app).drain()
    states = [await app.get(job) for job in jobs]
    assert [one.state for one in states] == [
        *("completed", "completed", "failed", "scheduled"),
        *("cancelled", "failed", "failed", "completed"),
    ]
    assert (states[0].result, states[1].result) == ("a value", {"a": 1})
    assert (states[6].errors[0].type, states[6].errors[0].message) == ("ValueError", "its own")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([1], "returned 1 outcomes: it must return a list with one outcome for each of its 2"),
        ({1: 2, 3: 4}, "returned a dict"),
        (None, "returned a NoneType"),
        ("ab", "returned a str"),
        (b"ab", "returned a bytes"),
        ({1, 2}, "returned a set"),
        (deque([1, 2, 3]), "returned 3 outcomes"),
    ],
)
async def test_what_is_no_list_of_outcomes_is_a_failure_of_all(
    app: Penstock, said: Any, told: str
) -> None:
    calls: list[int] = []

    @app.task(batch=Batch(size=2, linger=LONG), max_attempts=1)
    async def odd(items: list[Item[int]]) -> Any:
        calls.append(len(items))
        return said

    jobs = await app.enqueue_many([odd.prepare(1), odd.prepare(2)])
    await worker_of(app).drain()
    assert calls == [2]
    for job in jobs:
        assert told in (await app.get(job)).errors[0].message


@pytest.mark.parametrize("kind", [tuple, deque, Rows])
async def test_what_has_outcomes_in_order_is_as_good_as_a_list(
    app: Penstock, kind: Callable[[list[Any]], Any]
) -> None:
    @app.task(batch=Batch(size=2, linger=LONG), max_attempts=1)
    async def embed(items: list[Item[int]]) -> Any:
        return kind([[item.value, 0.5] for item in items])

    jobs = await app.enqueue_many([embed.prepare(1), embed.prepare(2)])
    await worker_of(app).drain()
    assert [(await app.get(job)).result for job in jobs] == [[1, 0.5], [2, 0.5]]


async def test_a_sync_handler_runs_in_a_thread(app: Penstock) -> None:
    names: set[str] = set()

    @app.task(batch=Batch(size=3, linger=LONG))
    def double(items: list[Item[int]]) -> list[int | Exception]:
        names.add(threading.current_thread().name)
        return [2 * item.value for item in items]

    jobs = await app.enqueue_many(double.prepare(number) for number in range(3))
    async with worker_of(app):
        assert [await app.wait(job, timeout=20) for job in jobs] == [0, 2, 4]
    assert names.pop().startswith("penstock")


async def test_the_call_has_a_context_and_each_item_its_own(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    class Model:
        pass

    model = Model()

    @app.resource(Model)
    @asynccontextmanager
    async def opened() -> AsyncIterator[Model]:
        yield model

    seen: list[Any] = []

    @app.task(batch=Batch(size=2, linger=LONG), resources=(Model,))
    async def use(ctx: BatchContext, items: list[Item[int]]) -> list[str]:
        assert ctx.resource(Model) is model
        assert not ctx.cancelled
        ctx.logger.warning("working")
        for item in items:
            item.ctx.progress(item.value, 10)
            seen.append((item.ctx.attempt, isinstance(item.ctx, Context)))
        return [item.ctx.job.id for item in items]

    jobs = await app.enqueue_many([use.prepare(1), use.prepare(2)])
    async with worker_of(app):
        assert [await app.wait(job, timeout=20) for job in jobs] == [str(job.id) for job in jobs]
    assert seen == [(1, True), (1, True)]
    assert "use, items: 2] working" in caplog.text


async def test_jobs_that_share_no_call_are_not_kept_from_other_workers(app: Penstock) -> None:
    Calls(app, Batch(size=64, linger=0.0))
    go_on = asyncio.Event()

    @app.task
    async def slow() -> None:
        await go_on.wait()

    async with worker_of(app, {"default": 1}):
        jobs = await app.enqueue_many([slow.prepare() for _ in range(10)])

        async def running() -> bool:
            states = [status.state for status in (await app.states(jobs)).values()]
            return sorted(states) == ["ready"] * 9 + ["running"]

        await until(running, what="one job to run and the others to be free")
        go_on.set()
