"""Handlers with budgets in tests: always enough inline, the real ones in a drain."""

import httpx
import pytest

from penstock import Context, Penstock, task
from penstock.tasks import NotNow
from penstock.testing import attempt, drain, run


@task
async def summarise(ctx: Context, answer: str) -> str:
    async with ctx.budget("openai", units=1_000_000) as budget:
        response = httpx.Response(429 if answer == "busy" else 200, headers={"Retry-After": "30"})
        response.request = httpx.Request("POST", "https://model.example")
        response.raise_for_status()
        budget.settle(40)
    return answer


@task
def translate(ctx: Context, answer: str) -> str:
    with ctx.sync.budget("openai", units=1_000_000):
        ctx.sync.close_bucket("other", 5)
        return answer


async def test_inline_there_is_always_enough() -> None:
    assert await run(summarise, "short") == "short"
    assert await run(translate, "kurz") == "kurz"


async def test_inline_a_429_is_a_snooze() -> None:
    ran = await attempt(summarise, "busy")
    assert (ran.state, ran.reason, ran.counts_failure) == ("scheduled", "budget:openai", False)
    assert 30 <= ran.delay <= 40
    with pytest.raises(NotNow):
        await run(summarise, "busy")


async def test_a_drain_keeps_to_the_budget_and_lets_time_pass_for_it(app: Penstock) -> None:
    await app.set_limit("openai", rate=1, burst=60)
    ran: list[int] = []

    @app.task
    async def spend(ctx: Context, number: int) -> None:
        async with ctx.budget("openai", units=60):
            ran.append(number)

    await app.enqueue(spend, 1)
    await app.enqueue(spend, 2)
    tally = await drain(app)
    assert (ran, tally.completed, tally.snoozed) == ([1], 1, 1)
    tally = await drain(app, scheduled=True)
    assert (ran, tally.completed) == ([1, 2], 1)
