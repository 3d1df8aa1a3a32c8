"""What befalls an attempt can be brought about, and shows what a handler makes of it."""

import asyncio
import logging

import asyncpg
import pytest

from penstock import Context, Penstock, StaleAttempt
from penstock.errors import ConfigError
from penstock.testing import NotDrained, drain, faults


class Ledger:
    """Handlers that write down what they do; one awaits, one blocks."""

    def __init__(self, app: Penstock) -> None:
        self.entries: list[int] = []
        self.stopped: list[bool] = []

        @app.task(name="charge", timeout=3600)
        async def charge(ctx: Context, order: int) -> str:
            self.entries.append(order)
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.stopped.append(ctx.cancelled)
                raise
            return "charged"

        @app.task(name="charge_sync", timeout=3600)
        def charge_sync(order: int) -> str:
            self.entries.append(order)
            return "charged"

        self.charge, self.charge_sync = charge, charge_sync


@pytest.fixture
def ledger(app: Penstock) -> Ledger:
    return Ledger(app)


@pytest.fixture(params=["charge", "charge_sync"])
def charge(app: Penstock, ledger: Ledger, request: pytest.FixtureRequest) -> object:
    return getattr(ledger, request.param)


async def test_a_call_raises_instead_of_the_handler(
    app: Penstock, ledger: Ledger, charge: object
) -> None:
    job = await app.enqueue(charge, 1)
    tally = await drain(app, faults=[faults.Raise(charge, OSError("away"))])
    assert (tally.retried, ledger.entries) == (1, [])
    error = (await app.get(job)).last_error
    assert error is not None
    assert (error.type, error.message) == ("OSError", "away")
    await drain(app, scheduled=True)
    assert ledger.entries == [1]


async def test_a_call_raises_after_the_handler_s_work(
    app: Penstock, ledger: Ledger, charge: object
) -> None:
    await app.enqueue(charge, 1)
    await drain(app, faults=[faults.Raise(charge, OSError(), at="end")], scheduled=True)
    assert ledger.entries == [1, 1]


async def test_a_fault_strikes_the_call_that_it_names(app: Penstock, ledger: Ledger) -> None:
    await app.enqueue_many(ledger.charge.prepare(order) for order in (1, 2, 3))
    await drain(app, faults=[faults.Raise(ledger.charge, OSError(), call=2)])
    assert ledger.entries == [1, 3]


async def test_several_faults_strike_one_job_in_turn(app: Penstock, ledger: Ledger) -> None:
    job = await app.enqueue(ledger.charge, 1)
    planned = [
        faults.Raise(ledger.charge, OSError(), call=1),
        faults.LoseWorker(ledger.charge, call=2),
        faults.ShutDown(ledger.charge, call=3),
    ]
    tally = await drain(app, faults=planned, scheduled=True)
    found = await app.get(job)
    assert (found.attempt, found.failures, found.losses) == (4, 1, 1)
    assert (tally.retried, tally.refused, tally.released, tally.completed) == (1, 1, 1, 1)


async def test_an_attempt_runs_out_of_time_without_the_wait(app: Penstock, ledger: Ledger) -> None:
    job = await app.enqueue(ledger.charge, 1)
    tally = await drain(app, faults=[faults.TimeOut(ledger.charge)])
    assert (tally.retried, ledger.entries, ledger.stopped) == (1, [1], [True])
    error = (await app.get(job)).last_error
    assert error is not None
    assert (error.kind, error.type) == ("timeout", "TimedOut")


@pytest.mark.parametrize("fault", [faults.TimeOut, faults.ShutDown, faults.Cancel])
async def test_an_attempt_is_stopped_after_its_work(
    app: Penstock, ledger: Ledger, charge: object, fault: type[faults.Fault]
) -> None:
    job = await app.enqueue(charge, 1)
    tally = await drain(app, faults=[fault(charge, at="end")])
    assert ledger.stopped == []
    match fault:
        case faults.TimeOut:
            assert (tally.retried, ledger.entries) == (1, [1])
        case faults.ShutDown:
            assert (tally.released, tally.completed, ledger.entries) == (1, 1, [1, 1])
        case _:
            assert (await app.get(job)).state == "cancelled"


async def test_a_job_is_cancelled_while_its_handler_works(app: Penstock, ledger: Ledger) -> None:
    job = await app.enqueue(ledger.charge, 1)
    await drain(app, faults=[faults.Cancel(ledger.charge)])
    assert (ledger.entries, ledger.stopped) == ([1], [True])
    assert (await app.get(job)).state == "cancelled"


async def test_a_sync_handler_sees_that_it_should_stop(app: Penstock) -> None:
    seen: list[bool] = []

    @app.task(name="look")
    def look(ctx: Context) -> None:
        seen.append(ctx.cancelled)

    await app.enqueue(look)
    await drain(app, faults=[faults.TimeOut(look)])
    assert seen == [True]


async def test_late_outcome_of_a_lost_worker_is_refused(
    app: Penstock, ledger: Ledger, charge: object
) -> None:
    job = await app.enqueue(charge, 1)
    tally = await drain(app, faults=[faults.LoseWorker(charge)])
    assert ledger.entries == [1, 1]
    assert (tally.refused, tally.completed) == (1, 1)
    found = await app.get(job)
    assert (found.state, found.losses, found.attempt) == ("completed", 1, 2)


async def test_a_fence_refuses_an_attempt_whose_worker_is_lost(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    fenced: list[bool] = []

    @app.task(name="book")
    async def book(ctx: Context) -> None:
        async with connection.transaction():
            try:
                await ctx.fence(connection)
            except StaleAttempt:
                fenced.append(False)
                raise
            fenced.append(True)

    await app.enqueue(book)
    await drain(app, faults=[faults.LoseWorker(book, at="start")])
    assert fenced == [False, True]


async def test_a_job_that_keeps_losing_its_worker_fails(app: Penstock, ledger: Ledger) -> None:
    job = await app.enqueue(ledger.charge, 1)
    lost = [faults.LoseWorker(ledger.charge, call=number) for number in (1, 2, 3)]
    await drain(app, faults=lost)
    found = await app.get(job)
    assert (found.state, found.reason, ledger.entries) == ("failed", "worker_lost", [1, 1, 1])


async def test_a_connection_lost_at_the_settle_costs_nothing(
    app: Penstock, ledger: Ledger, charge: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    job = await app.enqueue(charge, 1)
    await drain(app, faults=[faults.LoseConnection(charge)])
    assert ledger.entries == [1]
    assert (await app.get(job)).state == "completed"


async def test_every_job_is_delivered_twice(app: Penstock, ledger: Ledger) -> None:
    await app.enqueue(ledger.charge, 1)
    await app.enqueue(ledger.charge_sync, 2)
    tally = await drain(app, twice=True)
    assert sorted(ledger.entries) == [1, 1, 2, 2]
    assert (tally.completed, tally.refused) == (2, 2)


async def test_what_fails_at_its_second_delivery_is_raised(app: Penstock) -> None:
    made: set[int] = set()

    @app.task(name="make")
    async def make(order: int) -> None:
        assert order not in made, "made twice"
        made.add(order)

    await app.enqueue(make, 7)
    with pytest.raises(AssertionError, match="made twice") as raised:
        await drain(app, twice=True)
    assert "In attempt 2 of job" in raised.value.__notes__[0]


async def test_job_completed_in_its_transaction_is_delivered_once(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await connection.execute("CREATE TABLE account (balance int); INSERT INTO account VALUES (0)")

    @app.task(name="deposit")
    async def deposit(ctx: Context) -> None:
        async with connection.transaction():
            await connection.execute("UPDATE account SET balance = balance + 100")
            await ctx.complete(connection)

    await app.enqueue(deposit)
    tally = await drain(app, twice=True)
    assert tally.completed == 1
    assert await connection.fetchval("SELECT balance FROM account") == 100


async def test_a_fault_that_never_strikes_is_told(app: Penstock, ledger: Ledger) -> None:
    await app.enqueue(ledger.charge, 1)
    with pytest.raises(
        NotDrained, match="Raise should have struck call 2 of charge at its start, but"
    ):
        await drain(app, faults=[faults.Raise(ledger.charge, OSError(), call=2)])
    with pytest.raises(ConfigError, match="the number of a call, from 1 on"):
        faults.TimeOut(ledger.charge, call=0)


async def test_an_error_that_no_fault_brought_is_raised_beside_faults(
    app: Penstock, ledger: Ledger
) -> None:
    @app.task(name="broken")
    async def broken() -> None:
        raise ValueError("a bug")

    await app.enqueue(ledger.charge, 1)
    await app.enqueue(broken)
    with pytest.raises(ValueError, match="a bug"):
        await drain(app, faults=[faults.Raise(ledger.charge, OSError())])
