"""A drain runs what was enqueued, and is loud about what goes wrong."""

import asyncio
import os
from datetime import timedelta

import asyncpg
import pytest

from penstock import Context, Discard, Fixed, Penstock, Process, Retry, Snooze, Workflow
from penstock.testing import AttemptFailed, NotDrained, assert_enqueued, drain, enqueued


class Declined(Exception):
    pass


async def test_everything_that_is_due_runs(app: Penstock) -> None:
    ran: list[str] = []

    @app.task(name="first", queue="mail")
    async def first() -> None:
        ran.append("first")
        await app.enqueue(second.options(queue="another"))

    @app.task(name="second")
    def second() -> None:
        ran.append("second")

    await app.enqueue(first)
    later = await app.enqueue(second.options(delay=60))
    tally = await drain(app)
    assert ran == ["first", "second"]
    assert tally.completed == 2
    assert [job.id for job in await enqueued(app)] == [later.id]


async def test_an_empty_queue_is_drained_at_once(app: Penstock) -> None:
    assert (await drain(app)).settled == 0


async def test_what_a_handler_raises_is_raised_as_it_was(app: Penstock) -> None:
    @app.task(name="charge")
    async def charge(order: int) -> None:
        raise Declined("no money")

    job = await app.enqueue(charge, 42)
    with pytest.raises(Declined, match="no money") as raised:
        await drain(app)
    assert raised.traceback[-1].name == "charge"
    assert raised.value.__notes__ == [f"In attempt 1 of job {job.id}: charge(order=42)"]
    assert (await app.get(job)).failures == 1


async def test_a_sync_handler_s_error_is_raised_too(app: Penstock) -> None:
    @app.task(name="charge")
    def charge() -> None:
        raise Declined("no money")

    await app.enqueue(charge)
    with pytest.raises(Declined) as raised:
        await drain(app)
    assert raised.traceback[-1].name == "charge"


async def test_after_a_failure_the_rest_stays_in_the_queue(app: Penstock) -> None:
    @app.task(name="charge")
    async def charge() -> None:
        raise Declined

    @app.task(name="next")
    async def after() -> None: ...

    await app.enqueue(charge)
    await app.enqueue(after)
    with pytest.raises(Declined):
        await drain(app)
    await assert_enqueued(app, after, count=1)


async def test_other_failures_of_the_moment_are_mentioned(app: Penstock) -> None:
    together = asyncio.Barrier(2)

    @app.task(name="charge")
    async def charge(order: int) -> None:
        await together.wait()
        raise Declined

    await app.enqueue_many(charge.prepare(order) for order in (1, 2))
    with pytest.raises(Declined) as raised:
        await drain(app, slots=2)
    notes = "\n".join(raised.value.__notes__)
    assert "charge(order=1)" in notes
    assert "charge(order=2)" in notes
    assert "raised Declined as well." in notes


async def test_failures_can_be_counted_instead(app: Penstock) -> None:
    @app.task(name="charge", max_attempts=1)
    async def charge(order: int) -> None:
        if order % 2:
            raise Declined

    await app.enqueue_many(charge.prepare(order) for order in range(4))
    tally = await drain(app, raises=False)
    assert (tally.completed, tally.failed) == (2, 2)


async def test_outcomes_that_a_handler_asks_for_are_no_failures(app: Penstock) -> None:
    @app.task(name="decide")
    async def decide(how: str) -> object:
        return {"retry": Retry(after=60), "snooze": Snooze(60), "discard": Discard("no")}[how]

    await app.enqueue_many(decide.prepare(how) for how in ("retry", "snooze", "discard"))
    tally = await drain(app)
    assert (tally.retried, tally.snoozed, tally.failed) == (1, 1, 1)


async def test_what_is_due_later_runs_when_asked_for(app: Penstock) -> None:
    ran: list[str] = []

    @app.task(name="step", retry=Fixed(3600))
    async def step(ctx: Context, name: str) -> Snooze | None:
        ran.append(name)
        if name == "flaky" and ctx.attempt == 1:
            raise OSError("away")
        return Snooze(timedelta(days=1)) if name == "slow" and ctx.attempt == 1 else None

    await app.enqueue(step.options(delay=timedelta(days=3)), "last")
    await app.enqueue(step, "slow")
    await app.enqueue(step, "flaky")
    tally = await drain(app, scheduled=True, raises=False)
    assert ran == ["slow", "flaky", "flaky", "slow", "last"]
    assert (tally.completed, tally.retried, tally.snoozed) == (3, 1, 1)
    assert await enqueued(app) == []


async def test_jobs_run_one_by_one_in_order(app: Penstock) -> None:
    ran: list[str] = []

    @app.task(name="step")
    async def step(name: str) -> None:
        ran.append(f"{name} begins")
        await asyncio.sleep(0)
        ran.append(f"{name} ends")

    await app.enqueue_many([step.prepare("a"), step.options(priority=1).prepare("b")])
    await drain(app)
    assert ran == ["b begins", "b ends", "a begins", "a ends"]


async def test_only_the_queues_named_are_served(app: Penstock) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    await app.enqueue(work.options(queue="mail"))
    await app.enqueue(work.options(queue="slow", delay=60))
    tally = await drain(app, queues=["mail"], scheduled=True)
    assert tally.completed == 1
    await assert_enqueued(app, work, queue="slow")
    assert (await drain(app, queues="slow", scheduled=True)).completed == 1


async def test_a_paused_queue_is_not_run_and_does_not_pass_for_drained(app: Penstock) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    job = await app.enqueue(work)
    await app.enqueue(work.options(queue="mail"))
    await app.pause("default")
    await app.pause("empty")
    held = rf'The queue default is paused, and job {job.id} of work .*app\.resume\("default"\)'
    for _ in range(2):
        with pytest.raises(NotDrained, match=held):
            await drain(app, raises=False)
    assert [job.queue for job in await enqueued(app)] == ["default"]
    assert (await drain(app, queues="mail")).completed == 0
    await app.resume("default")
    assert (await drain(app)).completed == 1


async def test_an_endless_chain_is_found_and_named(app: Penstock) -> None:
    @app.task(name="start")
    async def start() -> None:
        await app.enqueue(again)

    @app.task(name="again")
    async def again() -> None:
        await app.enqueue(again)

    await app.enqueue(start)
    with pytest.raises(NotDrained, match="after 20 attempts; 19 of them were of the task again"):
        await drain(app, limit=20)


async def test_an_endless_wait_is_found_and_named(app: Penstock) -> None:
    @app.task(name="poll")
    async def poll() -> Snooze:
        return Snooze(60)

    await app.enqueue(poll)
    with pytest.raises(NotDrained, match="after 3 attempts; 3 of them were of the task poll"):
        await drain(app, scheduled=True, limit=3)


async def test_as_many_jobs_as_the_limit_are_no_endless_chain(app: Penstock) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    await app.enqueue_many(work.prepare() for _ in range(30))
    assert (await drain(app, limit=30)).completed == 30


async def test_a_task_that_nobody_knows_is_told(app: Penstock) -> None:
    @app.task(name="charge_card")
    async def charge() -> None: ...

    other = Penstock(app.url)

    @other.task(name="charge_cart")
    async def unknown() -> None: ...

    await app.enqueue(unknown)
    with pytest.raises(NotDrained, match=r"of charge_cart cannot be run\. .*mean 'charge_card'"):
        await drain(app)


class Mailer:
    """A resource that nobody opens."""


async def test_time_is_not_let_pass_for_what_only_a_deploy_can_mend(app: Penstock) -> None:
    @app.task(name="mail", resources=[Mailer])
    async def mail() -> None: ...

    await app.enqueue(mail)
    assert (await drain(app, scheduled=True, raises=False)).parked == 1
    await app.retry((await enqueued(app))[0])
    with pytest.raises(NotDrained, match="The worker could not open Mailer"):
        await drain(app)


async def test_arguments_that_no_longer_fit_are_told(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task(name="charge")
    async def charge(order: int) -> None: ...

    await connection.execute("""SELECT penstock.enqueue('charge', '{"order": "x"}')""")
    with pytest.raises(NotDrained, match="do not fit the task 'charge' at order"):
        await drain(app)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_that_takes_too_long_is_told(app: Penstock, is_async: bool) -> None:
    @app.task(name="slow", timeout=0.05)
    async def slow(ctx: Context) -> None:
        await asyncio.Event().wait()

    @app.task(name="busy", timeout=0.05)
    def busy(ctx: Context) -> None:
        while not ctx.cancelled:
            pass

    await app.enqueue(slow if is_async else busy)
    with pytest.raises(TimeoutError, match=r"longer than its timeout of 0\.05 s") as raised:
        await drain(app)
    assert "In attempt 1 of job" in raised.value.__notes__[0]


async def test_a_forgotten_commit_is_told(app: Penstock, connection: asyncpg.Connection) -> None:
    @app.task(name="book")
    async def book(ctx: Context) -> None:
        transaction = connection.transaction()
        await transaction.start()
        await ctx.complete(connection)
        await transaction.rollback()

    await app.enqueue(book)
    with pytest.raises(AttemptFailed, match=r"was not committed\. \(NotCommitted\)"):
        await drain(app)


async def test_the_app_s_own_tasks_stay_as_they_are(app: Penstock) -> None:
    @app.task(name="work")
    async def work() -> str:
        return "done"

    before = app.tasks.get("work")
    await app.enqueue(work)
    await drain(app)
    assert app.tasks.get("work") is before
    assert await work() == "done"


async def test_handlers_that_still_run_after_a_failure_are_stopped(app: Penstock) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    @app.task(name="hang")
    async def hang() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.task(name="charge")
    async def charge() -> None:
        await began.wait()
        raise Declined

    await app.enqueue(hang)
    await app.enqueue(charge)
    with pytest.raises(Declined):
        await drain(app, slots=2)
    assert stopped.is_set()
    await assert_enqueued(app, hang)


async def test_a_workflow_is_drained_step_by_step(app: Penstock) -> None:
    @app.task(name="part")
    async def part(number: int) -> int:
        return number

    @app.task(name="merge")
    async def merge(ctx: Context) -> int:
        return sum(each.result for each in (await ctx.parents()).values())

    flow = Workflow()
    flow.chain([part.prepare(1), part.prepare(2)], merge.prepare())
    started = await app.start_workflow(flow)
    assert (await drain(app)).completed == 3
    assert await app.wait(started["merge"]) == 3


async def test_a_job_of_an_isolated_task_runs_in_the_tests_own_process(app: Penstock) -> None:
    ran: list[int] = []

    @app.task(name="parse", isolate=Process(memory="64MB"))
    def parse() -> None:
        ran.append(os.getpid())

    await app.enqueue(parse)
    await drain(app)
    assert ran == [os.getpid()]
