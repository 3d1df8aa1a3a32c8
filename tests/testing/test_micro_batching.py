"""The tools for tests with tasks that take many jobs in one call."""

import pytest

from penstock import Batch, BatchContext, Item, Penstock, Retry
from penstock.errors import PayloadRefused
from penstock.testing import assert_enqueued, attempt, drain, faults, run


class Sums:
    """Tasks that add up, one that awaits and one that blocks."""

    def __init__(self, app: Penstock) -> None:
        self.calls: list[list[int]] = []

        @app.task(name="double", batch=Batch(size=8, linger=0.02))
        async def double(items: list[Item[int]]) -> list[int]:
            return self.double_all(items)

        @app.task(name="double_sync", batch=Batch(size=8, linger=0.02))
        def double_sync(ctx: BatchContext, items: list[Item[int]]) -> list[int]:
            return self.double_all(items)

        self.double, self.double_sync = double, double_sync

    def double_all(self, items: list[Item[int]]) -> list[int]:
        self.calls.append([item.value for item in items])
        if any(item.value < 0 for item in items):
            raise ValueError("below zero")
        return [2 * item.value for item in items]


@pytest.fixture
def sums(app: Penstock) -> Sums:
    return Sums(app)


@pytest.fixture(params=["double", "double_sync"])
def double(sums: Sums, request: pytest.FixtureRequest) -> object:
    return getattr(sums, request.param)


async def test_a_handler_is_called_with_items_that_belong_to_no_job(sums: Sums) -> None:
    assert await sums.double([Item.of(1), Item.of(2)]) == [2, 4]
    with pytest.raises(RuntimeError, match="no ctx"):
        _ = Item.of(1).ctx
    assert repr(Item.of(1)) == "<Item 1>"


async def test_run_calls_it_for_one(sums: Sums, double: object) -> None:
    assert await run(double, 21) == 42  # type: ignore[arg-type]
    assert sums.calls == [[21]]
    with pytest.raises(PayloadRefused):
        await run(sums.double, "no number")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="below zero"):
        await run(sums.double, -1)


async def test_attempt_tells_what_becomes_of_the_one(app: Penstock) -> None:
    @app.task(batch=Batch(size=8))
    async def later(items: list[Item[int]]) -> list[Retry]:
        return [Retry(after=30) for _ in items]

    ran = await attempt(later, 1)
    assert (ran.state, ran.delay) == ("scheduled", 30)


async def test_a_drain_runs_those_that_are_ready_in_one_call(
    app: Penstock, sums: Sums, double: object
) -> None:
    jobs = await app.enqueue_many(double.prepare(number) for number in range(5))  # type: ignore
    await assert_enqueued(app, double, {"item": 3})  # type: ignore[arg-type]
    assert (await drain(app)).completed == 5
    assert [(await app.get(job)).result for job in jobs] == [0, 2, 4, 6, 8]
    assert sums.calls == [[0, 1, 2, 3, 4]]


async def test_a_drain_raises_what_an_item_raised(
    app: Penstock, sums: Sums, double: object
) -> None:
    await app.enqueue_many(double.prepare(number) for number in (1, -2, 3))  # type: ignore
    with pytest.raises(ValueError, match="below zero") as raised:
        await drain(app)
    assert "item=-2" in raised.value.__notes__[0]


async def test_a_fault_befalls_one_item(app: Penstock, sums: Sums, double: object) -> None:
    jobs = await app.enqueue_many(double.prepare(number) for number in range(3))  # type: ignore
    tally = await drain(
        app,
        raises=False,
        faults=[
            faults.Raise(double, ConnectionError("away"), call=2),  # type: ignore[arg-type]
            faults.TimeOut(double, call=3),  # type: ignore[arg-type]
        ],
    )
    assert (tally.completed, tally.retried) == (1, 2)
    assert (await app.get(jobs[1])).errors[0].message == "away"
    assert (await app.get(jobs[2])).errors[0].kind == "timeout"


async def test_every_item_can_be_delivered_twice(app: Penstock, sums: Sums) -> None:
    await app.enqueue_many(sums.double.prepare(number) for number in range(3))
    assert (await drain(app, twice=True)).completed == 3
    assert sums.calls[0] == [0, 1, 2]
    assert sorted(number for call in sums.calls for number in call) == [0, 0, 1, 1, 2, 2]
