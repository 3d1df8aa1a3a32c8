"""Answers that come after news which contradicts them: what is newer holds."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.store.grants import LimitStatements
from tests.fixtures.until import until
from tests.fixtures.worker import all_heard, cancels_heard, listening, worker_of, worker_state
from tests.worker.meter import Meter
from tests.worker.test_limits import rules_known

pytestmark = [pytest.mark.told, pytest.mark.usefixtures("led_elsewhere")]

SLOTS = {"default": 20}


class Late:
    """Keeps the first answer of a call that fits, until it is let go."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, call: str, fits: Callable[[dict[str, Any]], bool]
    ) -> None:
        self._given, self._go_on = asyncio.Event(), asyncio.Event()
        ask = getattr(LimitStatements, call)

        async def late(limits: LimitStatements, *args: Any) -> Any:
            answer = await ask(limits, *args)
            if not self._given.is_set() and fits(answer):
                self._given.set()
                await self._go_on.wait()
            return answer

        monkeypatch.setattr(LimitStatements, call, late)

    async def given(self) -> None:
        await asyncio.wait_for(self._given.wait(), 30)

    def go_on(self) -> None:
        self._go_on.set()


async def test_worker_asks_again_for_slots_freed_meanwhile(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch, "grant", lambda answer: any(not one.slots for one in answer.values()))
    meter = Meter(app)
    await app.set_limit("queue:default", slots=1)
    holder = await connection.fetchval("SELECT penstock.open_lease_v1('holder', 3600)")
    ask = "SELECT penstock.grant_slots_v1($1, '{queue:default}', '{1}', '{1}')"
    await connection.execute(ask, holder)
    async with worker_of(app, SLOTS, limit_retry=3600.0, limit_idle=3600.0) as worker:
        await listening(worker)
        await app.enqueue(meter.task)
        await late.given()
        await connection.execute("SELECT penstock.close_lease_v1($1)", holder)
        await all_heard(connection, worker)
        late.go_on()
        await meter.ended(1)


async def test_late_grant_of_a_lowered_limit_is_not_used(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch, "grant", lambda answer: any(one.slots for one in answer.values()))
    meter = Meter(app)
    await app.set_limit("queue:default", slots=8)
    async with worker_of(app, SLOTS) as worker:
        await app.enqueue_many(meter.task.prepare() for _ in range(20))
        await late.given()
        await app.set_limit("queue:default", slots=1)
        await rules_known(app, worker)
        late.go_on()
        await meter.ended(20)
    assert meter.most["all"] == 1


async def test_late_tokens_of_a_closed_bucket_are_not_used(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch, "take", lambda answer: any(one.got > 0 for one in answer.values()))
    meter = Meter(app)
    await app.set_limit("queue:default", rate=1000)
    async with worker_of(app, SLOTS) as worker:
        await listening(worker)
        await app.enqueue_many(meter.task.prepare() for _ in range(5))
        await late.given()
        await app.close_bucket("queue:default", 3600)
        await all_heard(connection, worker)
        answers = worker_state(worker).limit_answers
        late.go_on()
        await until(lambda: worker_state(worker).limit_answers > answers, what="the answer")
        assert worker_state(worker).limits["queue:default"].tokens == 0
        await app.open_bucket("queue:default")
        await meter.ended(5)


async def test_a_key_that_is_opened_while_a_job_closes_it_is_open(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch, "close_bucket", lambda _: True)
    await app.set_limit("openai", rate=1000)

    @app.task(limits="openai")
    async def answer(ctx: Context, ok: bool) -> bool:
        if not ok:
            await ctx.close_bucket("openai", 3600)
        return ok

    async with worker_of(app, SLOTS) as worker:
        await listening(worker)
        await app.enqueue(answer, False)
        await late.given()
        await app.open_bucket("openai")
        await all_heard(connection, worker)
        late.go_on()
        assert await app.wait(await app.enqueue(answer, True), timeout=30)


async def test_job_cancelled_before_its_claim_returns_does_not_run(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Meter(app)
    claim, heard = app.store.claim, asyncio.Event()

    async def late(*args: Any) -> list[Any]:
        claimed: list[Any] = await claim(*args)
        if claimed and not heard.is_set():
            await app.cancel(str(claimed[0].id))
            await asyncio.wait_for(heard.wait(), 30)
        return claimed

    monkeypatch.setattr(app.store, "claim", late)
    async with worker_of(app, SLOTS) as worker:
        cancels_heard(worker, heard)
        await app.enqueue_many([meter.task.prepare("cancelled"), meter.task.prepare("other")])
        await meter.ended(1)
    assert meter.order == ["other"]
