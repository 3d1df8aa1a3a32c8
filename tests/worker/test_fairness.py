"""Lanes take turns: nobody waits behind another's backlog."""

from collections import Counter
from typing import Any

import asyncpg
import pytest

from penstock import Penstock, Worker
from tests.fixtures.until import until
from tests.fixtures.worker import (
    GROUPS,
    between_claims,
    counted,
    drop_notifications,
    listening,
    news_of_lanes,
    nothing_to_claim,
    queue_state,
    rules_known,
    worker_of,
)
from tests.worker.meter import Meter

pytestmark = [
    pytest.mark.usefixtures("led_elsewhere"),
    pytest.mark.any_pooler,
    pytest.mark.direct(
        "turns are taken in the worker; by polling alone it takes as long as all the others, and "
        "the claim of turns is in tests/db"
    ),
]

# Where nothing is looked for unasked, only what was told can be the reason.
DEAF: dict[str, Any] = {"rescan": 3600, "poll": 3600}


@pytest.fixture
async def fair(app: Penstock) -> Penstock:
    await app.set_queue("default", fair=True)
    return app


def of(meter: Meter, tenant: str, count: int = 1, **options: Any) -> list[Any]:
    """Jobs of one tenant, each of which says whose it is."""
    return [meter.task.options(tenant=tenant, **options).prepare(tenant) for _ in range(count)]


async def known(worker: Worker, lane: str) -> None:
    """Wait until a worker knows of a lane, and of nothing more to claim for now."""
    await until(lambda: lane in queue_state(worker).lanes, what=f"the lane {lane}")
    await nothing_to_claim(worker)


# The promise


@pytest.mark.told
async def test_the_next_freed_slot_goes_to_the_tenant_that_has_one_job(fair: Penstock) -> None:
    """Of slow jobs, none of which is fetched ahead."""
    meter = Meter(fair, gated=True)
    async with worker_of(fair, {"default": 3}, **DEAF, ahead=0.0) as worker:
        await fair.enqueue_many(of(meter, "big", 500))
        await meter.begun(3)
        for number, small in enumerate(("one", "two", "three")):
            await fair.enqueue_many(of(meter, small))
            await known(worker, small)
            meter.let_go()
            await meter.begun(4 + number)
            assert meter.order[-1] == small
        meter.let_all_go()


@pytest.mark.told
async def test_also_while_quick_jobs_are_fetched_ahead(fair: Penstock) -> None:
    meter = Meter(fair)
    await fair.enqueue_many(of(meter, "big", 8000))
    async with worker_of(fair, {"default": 10}, **DEAF) as worker:
        await listening(worker)
        # How many had begun when the worker was told: how long that takes is not the question.
        begun: dict[str | None, int] = {}
        news_of_lanes(worker, lambda lane: begun.setdefault(lane, len(meter.order)))
        await until(lambda: len(queue_state(worker).fetched) > 30, what="many to be at hand")
        for small in ("one", "two", "three"):
            [job] = await fair.enqueue_many(of(meter, small))
            await fair.wait(job, timeout=30)
            # A round trip's worth, not what waits.
            assert meter.order.index(small) - begun[small] < 200
        assert meter.done < 7000


@pytest.mark.told
async def test_also_when_what_was_fetched_ahead_turns_out_slow(fair: Penstock) -> None:
    meter = Meter(fair)
    await fair.enqueue_many(of(meter, "big", 4000))
    async with worker_of(fair, {"default": 10}, **DEAF) as worker:
        await until(lambda: len(queue_state(worker).fetched) > 30, what="many to be at hand")
        meter.hold()
        await until(lambda: meter.running == 10 and meter.is_held, what="all slots to be held")
        for small in ("one", "two", "three", "four", "five"):
            await fair.enqueue_many(of(meter, small))
            await known(worker, small)
            assert small in queue_state(worker).fetched_lanes
            begun = len(meter.order)
            meter.let_go()
            await meter.begun(begun + 1)
            assert meter.order[-1] == small
        assert len(queue_state(worker).fetched) > 20
        meter.let_all_go()


@pytest.mark.told
async def test_a_thousand_lanes_each_get_their_turn_within_one_round(fair: Penstock) -> None:
    """Told of in one word: so many lanes are not named one by one."""
    meter = Meter(fair)
    tenants = [f"tenant {number}" for number in range(1000)]
    async with worker_of(fair, {"default": 20}, **DEAF) as worker:
        await listening(worker)
        await fair.enqueue_many(job for tenant in tenants for job in of(meter, tenant, 2))
        await meter.ended(2000)
    assert set(meter.order[:1000]) == set(tenants)
    assert set(meter.order[1000:2000]) == set(tenants)


async def test_two_workers_take_turns_too(fair: Penstock) -> None:
    meter = Meter(fair, gated=True)
    await fair.enqueue_many(of(meter, "big", 1500))
    async with worker_of(fair, {"default": 3}) as one, worker_of(fair, {"default": 3}) as other:
        await meter.begun(6)
        small = [f"small {number}" for number in range(20)]
        await fair.enqueue_many(job for name in small for job in of(meter, name, 5))
        for worker in (one, other):
            await known(worker, small[-1])
        meter.let_all_go()
        await until(lambda: sum(name != "big" for name in meter.order) == 100, what="the small")
        assert meter.order.count("big") < 800


async def test_lanes_are_found_also_where_nobody_is_told(
    fair: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_notifications(monkeypatch)
    meter = Meter(fair, gated=True)
    async with worker_of(
        fair, {"default": 2}, poll=0.05, rescan=3600, rules=0.05, ahead=0.0
    ) as worker:
        await fair.enqueue_many(of(meter, "big", 300))
        await meter.begun(2)
        await fair.enqueue_many(of(meter, "small"))
        await known(worker, "small")
        meter.let_go()
        await meter.begun(3)
        assert meter.order == ["big", "big", "small"]
        await fair.set_lane("default", "small", weight=2)
        await rules_known(fair, worker)
        meter.let_all_go()


# Weights, priorities, ageing


@pytest.mark.parametrize("slots", [1, 10])
async def test_turns_are_by_weight_and_a_weight_may_change(fair: Penstock, slots: int) -> None:
    meter = Meter(fair)
    await fair.set_lane("default", "gold", weight=3)
    jobs = 3000 if slots == 10 else 400
    await fair.enqueue_many(job for name in ("gold", "iron") for job in of(meter, name, jobs))
    stretch = jobs // 4
    async with worker_of(fair, {"default": slots}) as worker:
        await meter.begun(stretch)
        shares = Counter(meter.order[:stretch])
        assert shares["gold"] == pytest.approx(stretch * 0.75, abs=20)
        await fair.set_lane("default", "gold", weight=1)
        await rules_known(fair, worker)
        # What is at hand, or on its way, was claimed by the old weight.
        async with between_claims(worker):
            begun = len(meter.order) + len(queue_state(worker).fetched)
        await meter.begun(begun + stretch)
        shares = Counter(meter.order[begun : begun + stretch])
        assert shares["gold"] == pytest.approx(stretch * 0.5, abs=20)


async def test_a_plan_gives_its_tenants_weight(fair: Penstock) -> None:
    meter = Meter(fair)
    await fair.set_plan("gold", weight=4)
    await fair.set_tenant("acme", plan="gold")
    await fair.enqueue_many(job for name in ("acme", "other") for job in of(meter, name, 200))
    async with worker_of(fair, {"default": 1}):
        await meter.begun(100)
    assert Counter(meter.order[:100])["acme"] == pytest.approx(80, abs=5)


async def test_priority_orders_within_a_lane_and_not_between_lanes(fair: Penstock) -> None:
    ran: list[str] = []

    @fair.task
    async def note(name: str) -> None:
        ran.append(name)

    for tenant, priority in (("a", 0), ("a", 0), ("b", -100), ("b", -100), ("a", 100)):
        options = note.options(tenant=tenant, priority=priority)
        await fair.enqueue(options, f"{tenant} {priority}")
    await worker_of(fair, {"default": 1}, ahead=0.0).drain(seconds=60)
    assert ran == ["a 100", "b -100", "a 0", "b -100", "a 0"]


@pytest.mark.parametrize("ageing", [None, 3600.0, 60.0])
async def test_with_ageing_what_has_waited_long_rises(
    app: Penstock, connection: asyncpg.Connection, ageing: float | None
) -> None:
    """A point of priority for each minute: ten minutes outweigh nine points."""
    ran: list[str] = []

    @app.task
    async def note(name: str) -> None:
        ran.append(name)

    await app.set_queue("default", ageing=ageing)
    await app.enqueue(note, "old")
    await connection.execute("UPDATE penstock.job SET ready_at = ready_at - interval '10 min'")
    await app.enqueue(note.options(priority=9), "high")
    await app.enqueue(note.options(priority=11), "higher")
    await worker_of(app, {"default": 1}).drain(seconds=60)
    expected = ["higher", "old", "high"] if ageing == 60.0 else ["higher", "high", "old"]
    assert ran == expected


# Lanes of other kinds


@pytest.mark.parametrize(
    ("lane_key", "options"),
    [
        ("tenant", {"tenant": "small"}),
        ("subject", {"subject": "small"}),
        ("requested_by", {"requested_by": "small"}),
        ("task", {}),
        ("args.who", {}),
        ("meta.region", {"meta": {"region": "small"}}),
        (None, {"lane": "small"}),
    ],
)
async def test_lanes_are_by_what_the_queue_says(
    app: Penstock, lane_key: str | None, options: dict[str, Any]
) -> None:
    big, small = Meter(app, "big"), Meter(app, "small", gated=True)
    await app.set_queue("default", fair=lane_key is not None, lane_key=lane_key)
    await app.enqueue_many(big.task.prepare("big") for _ in range(100))
    job = await app.enqueue(small.task.options(**options), "small")
    assert (await app.get(job)).lane == "small"
    async with worker_of(app, {"default": 1}):
        await small.begun(1)
        # The only slot is kept until this is looked at.
        assert len(big.order) <= 2
        small.let_go()


async def test_a_queue_becomes_fair_and_plain_again_while_jobs_wait(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is fetched ahead, by the old rules."""
    meter = Meter(app, gated=True)
    await app.enqueue_many(of(meter, "big", 50))
    async with worker_of(app, {"default": 1}) as worker:
        await meter.begun(1)
        await app.set_queue("default", fair=True)
        jobs = await app.enqueue_many(job for name in ("a", "b") for job in of(meter, name, 2))
        for lane in ("a", "b"):
            await known(worker, lane)
        for number in range(2, 8):
            meter.let_go()
            await meter.begun(number)
        # What waited before is a lane among others.
        assert Counter(meter.order[1:7]) == {"a": 2, "b": 2, "big": 2}
        await app.set_queue("default", fair=False)
        plain = await app.enqueue(meter.task.options(tenant="c"), "c")
        assert [(await app.get(job)).lane for job in (*jobs, plain)] == ["a", "a", "b", "b", ""]
        meter.let_all_go()
        await meter.ended(55)


# Lanes that are closed


@pytest.mark.told
async def test_a_lane_is_paused_and_resumed(fair: Penstock) -> None:
    meter = Meter(fair)
    await fair.set_lane("default", "stopped", paused=True)
    async with worker_of(fair, {"default": 2}, **DEAF):
        await fair.enqueue_many(job for name in ("stopped", "a", "b") for job in of(meter, name, 5))
        await meter.ended(10)
        assert "stopped" not in meter.order
        await fair.set_lane("default", "stopped", paused=False)
        await meter.ended(15)


async def test_a_drain_ends_when_only_closed_lanes_are_left(fair: Penstock) -> None:
    meter = Meter(fair)
    await fair.set_lane("default", "stopped", paused=True)
    await fair.enqueue_many(job for name in ("stopped", "a") for job in of(meter, name, 5))
    tally = await worker_of(fair, {"default": 2}).drain(seconds=60)
    assert tally.completed == 5
    assert set(meter.order) == {"a"}


async def test_many_closed_lanes_slow_down_nobody(fair: Penstock) -> None:
    """Their turns are passed by within a claim: the others are not claimed one by one."""
    meter = Meter(fair)
    stopped = [f"stopped {number}" for number in range(200)]
    for name in stopped:
        await fair.set_lane("default", name, paused=True)
    await fair.enqueue_many(job for name in (*stopped, "a", "b") for job in of(meter, name, 1))
    await fair.enqueue_many(job for name in ("a", "b") for job in of(meter, name, 400))
    claims = counted(fair, "claim")
    tally = await worker_of(fair, {"default": 100}).drain(seconds=60)
    assert tally.completed == 802
    assert len(claims) < 60


# Workers for some tenants


async def test_workers_split_the_work_by_tenant(fair: Penstock) -> None:
    meter = Meter(fair)
    names = ("acme", "umbrella", "other", "another")
    await fair.enqueue_many(job for name in names for job in of(meter, name, 10))
    tally = await fair.worker("default", tenants=["acme", "umbrella"], **GROUPS).drain(seconds=60)
    assert tally.completed == 20
    assert set(meter.order) == {"acme", "umbrella"}
    tally = await fair.worker("default", except_tenants="other", **GROUPS).drain(seconds=60)
    assert tally.completed == 10
    assert set(meter.order[20:]) == {"another"}
    assert (await worker_of(fair).drain(seconds=60)).completed == 10
