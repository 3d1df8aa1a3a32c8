"""Limits and budgets where workers are told nothing."""

from penstock import Context, Penstock
from tests.fixtures.worker import worker_of
from tests.worker.meter import Meter, expect_nothing_counted


async def test_workers_share_slots_rates_and_budgets(app: Penstock) -> None:
    slots, rates = Meter(app, "slots"), Meter(app, "rates", limits="requests")
    await app.set_limit("task:slots", slots=2)
    await app.set_limit("requests", rate=1000, burst=5)
    await app.set_limit("tokens", rate=1000, burst=100)

    @app.task
    async def spend(ctx: Context) -> int:
        async with ctx.budget("tokens", units=60) as budget:
            budget.settle(50)
        return ctx.attempt

    for task in (slots.task, rates.task):
        await app.enqueue_many(task.prepare() for _ in range(20))
    spending = await app.enqueue_many(spend.prepare() for _ in range(5))
    async with worker_of(app) as one, worker_of(app) as other:
        await slots.ended(20)
        await rates.ended(20)
        for job in spending:
            await app.wait(job, timeout=30)
        await expect_nothing_counted(one, other)
    assert slots.most["all"] <= 2
