"""Limits that workers share: how many run at once, how many start in a second."""

import asyncio
import time
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import asyncpg
import pytest

from penstock import Penstock, Process
from penstock.store import ClaimedJob
from penstock.store.grants import LimitStatements
from penstock.worker import Worker
from penstock.worker.children.assignment import NotStarted
from penstock.worker.children.pool import ChildPool
from penstock.worker.limits import keeper
from penstock.worker.limits.buckets import Bucket
from penstock.worker.limits.keeper import LimitKeeper
from tests.fixtures.until import until
from tests.fixtures.worker import (
    LimitSeen,
    claim_again,
    drop_notifications,
    end_leases,
    expect_quick_jobs,
    lease_held,
    lose_lease,
    queue_state,
    rules_known,
    worker_of,
    worker_state,
)
from tests.worker.meter import Meter, expect_nothing_counted

# How long one waits to be told is not the question here, nor is it worth the time.
pytestmark = [pytest.mark.told, pytest.mark.usefixtures("led_elsewhere"), pytest.mark.any_pooler]

SLOTS = {"default": 20}
# What is not used goes back soon, and what was refused is soon asked for again.
BRIEF = {"limit_idle": 0.2, "limit_retry": 0.1, "limit_patience": 0.5}


def limit(worker: Worker) -> LimitSeen:
    return worker_state(worker).limits["queue:default"]


async def granted(connection: asyncpg.Connection, key: str) -> list[int]:
    """The slots of a key that live workers hold, those with most first."""
    rows = await connection.fetch(
        'SELECT g.slots FROM penstock."grant" AS g JOIN penstock.lease AS l ON l.id = g.lease '
        "WHERE g.key = $1 AND l.expires_at > clock_timestamp() ORDER BY 1 DESC",
        key,
    )
    return [row["slots"] for row in rows]


# What can be limited


@pytest.mark.parametrize(
    ("key", "options", "fair"),
    [
        ("queue:default", {}, False),
        ("task:metered", {}, False),
        ("openai", {"limits": "openai"}, False),
        ("account:7", {"limits": "account:{who}"}, False),
        ("lane:default:7", {"tenant": "7"}, True),
        ("lane:default:*", {"tenant": "7"}, True),
    ],
)
async def test_no_more_than_the_limit_run_at_once(
    app: Penstock, key: str, options: dict[str, Any], fair: bool
) -> None:
    meter = Meter(app, limits=options.pop("limits", ()))
    await app.set_queue("default", fair=fair)
    await app.set_limit(key, slots=2)
    await app.enqueue_many(meter.task.options(**options).prepare("7") for _ in range(20))
    async with worker_of(app, SLOTS) as worker:
        await meter.ended(20)
        await expect_nothing_counted(worker)
    assert meter.most["all"] == 2


async def test_a_job_keeps_to_all_of_its_limits(app: Penstock) -> None:
    meter = Meter(app, limits=("openai", "account:{who}"))
    await app.set_limit("openai", slots=3)
    await app.set_limit("account:*", slots=2)
    await app.enqueue_many(meter.task.prepare(str(n % 4)) for n in range(40))
    async with worker_of(app, SLOTS) as worker:
        await meter.ended(40)
        await expect_nothing_counted(worker)
    assert meter.most["all"] == 3
    assert max(meter.most[str(n)] for n in range(4)) == 2


async def test_what_waits_for_a_limit_holds_up_nothing_else(app: Penstock) -> None:
    limited = Meter(app, "limited", gated=True, limits="openai")
    free = Meter(app, "free")
    await app.set_limit("openai", slots=1)
    async with worker_of(app, SLOTS, rescan=3600, poll=3600):
        await app.enqueue_many(limited.task.prepare() for _ in range(50))
        await limited.begun(1)
        await app.enqueue_many(free.task.prepare() for _ in range(50))
        await free.ended(50)
        assert len(limited.order) == 1
        limited.let_all_go()
        await limited.ended(50)


# Limits newer than the jobs


@pytest.mark.parametrize("slots", [0, 1])
async def test_limit_on_a_queued_task_does_not_block_other_tasks(
    app: Penstock, connection: asyncpg.Connection, slots: int
) -> None:
    limited = Meter(app, "limited", gated=True)
    free = Meter(app, "free")
    tasks = [limited.task, free.task] * 30
    await app.enqueue_many(task.prepare() for task in tasks)
    await app.set_limit("task:limited", slots=slots)
    async with worker_of(app, SLOTS, rescan=3600, poll=3600) as worker:
        await free.ended(30)
        await limited.begun(slots)
        assert limited.running == slots
        await until(lambda: runs_all(worker), what="the last to be moved")
        lanes = "SELECT array_agg(DISTINCT lane) FROM penstock.job WHERE state = 'ready'"
        assert await connection.fetchval(lanes) == ["\x1ftask:limited"]
        limited.let_all_go()
        await app.set_limit("task:limited", slots=5)
        await limited.ended(30)
        await expect_nothing_counted(worker)
    assert limited.most["all"] <= 5
    [counts] = await connection.fetch(
        "SELECT max(failures) AS failures, max(losses) AS losses FROM penstock.job_history"
    )
    assert tuple(counts) == (0, 0)


def runs_all(worker: Worker) -> bool:
    """Whether a worker has no other jobs than those that run."""
    state = worker_state(worker)
    return set(state.jobs) == set(state.running)


async def test_limited_job_does_not_block_its_lane(app: Penstock) -> None:
    """A job that may not start is moved also if others at hand may: its lane would starve."""
    limited = Meter(app, "limited")
    free = Meter(app, "free")
    await app.set_queue("default", fair=True)
    acme, other = {"tenant": "acme"}, {"tenant": "other"}
    await app.enqueue(limited.task.options(**acme))
    await app.enqueue_many(free.task.options(**acme).prepare("acme") for _ in range(5))
    await app.enqueue_many(free.task.options(**other).prepare("other") for _ in range(1500))
    await app.set_limit("task:limited", slots=0)
    async with worker_of(app, {"default": 2}):
        await until(lambda: free.order.count("acme") == 5, what="those behind it")
        assert free.order.count("other") < 500


async def test_a_new_limit_counts_what_runs_already(app: Penstock) -> None:
    meter = Meter(app, gated=True)
    async with worker_of(app, SLOTS) as worker:
        await app.enqueue_many(meter.task.prepare() for _ in range(3))
        await meter.begun(3)
        await app.set_limit("queue:default", slots=2)
        await rules_known(app, worker)
        await app.enqueue_many(meter.task.prepare() for _ in range(3))
        meter.let_go(1)
        await meter.ended(1)
        await until(lambda: limit(worker).slots == 2, what="the slots")
        assert (meter.running, limit(worker).used) == (2, 2)
        meter.let_go(1)
        await meter.begun(4)
        assert meter.running == 2
        meter.let_all_go()
        await meter.ended(6)
        await expect_nothing_counted(worker)


# Changes at run time


async def test_running_workers_follow_changes_of_a_limit(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    meter = Meter(app, gated=True)
    await app.set_limit("queue:default", slots=1)
    async with worker_of(app, SLOTS, rescan=3600, poll=3600) as worker:
        await app.enqueue_many(meter.task.prepare() for _ in range(30))
        await meter.begun(1)
        await app.set_limit("queue:default", slots=4)
        await meter.begun(4)
        await app.set_limit("queue:default", slots=2)
        await rules_known(app, worker)
        meter.let_go(2)
        await meter.ended(2)
        await until(lambda: granted_is(connection, [2]), what="what is not used to be given back")
        assert len(meter.order) == 4
        meter.let_go(1)
        await meter.begun(5)
        await app.set_limit("queue:default", slots=0)
        await rules_known(app, worker)
        meter.let_go(2)
        await until(lambda: meter.running == 0, what="the last to end")
        await until(lambda: granted_is(connection, []), what="all to be given back")
        assert len(meter.order) == 5
        await app.set_limit("queue:default", slots=3)
        await meter.begun(8)
        await app.remove_limit("queue:default")
        await meter.begun(5 + 20)
        assert meter.most["all"] == 20
        meter.let_all_go()
        await meter.ended(30)
        await expect_nothing_counted(worker)
        assert await granted(connection, "queue:default") == []


async def granted_is(connection: asyncpg.Connection, slots: list[int]) -> bool:
    return await granted(connection, "queue:default") == slots


async def test_limits_that_come_and_go_leave_no_counts_behind(app: Penstock) -> None:
    meter = Meter(app)
    async with worker_of(app, {"default": 5}) as worker:
        for _ in range(4):
            await app.enqueue_many(meter.task.prepare() for _ in range(150))
            begun = len(meter.order)
            await app.set_limit("queue:default", slots=4)
            await meter.begun(begun + 40)
            await app.remove_limit("queue:default")
            await meter.begun(begun + 80)
        await meter.ended(600)
        await expect_nothing_counted(worker)


async def test_prefetched_jobs_of_a_closed_limit_are_released(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """Quick jobs are fetched ahead; then their limit is closed."""
    limited = Meter(app, "limited", limits="openai")
    free = Meter(app, "free")
    await app.set_limit("openai", slots=4)
    await app.enqueue_many(limited.task.prepare() for _ in range(4000))
    async with worker_of(app, {"default": 5}) as worker:
        await until(lambda: len(queue_state(worker).fetched) > 10, what="some to be fetched ahead")
        await app.set_limit("openai", slots=0)
        await rules_known(app, worker)
        await app.enqueue_many(free.task.prepare() for _ in range(20))
        await free.ended(20)
        running = "SELECT count(*) FROM penstock.job WHERE state = 'running'"
        await until(lambda: is_zero(connection, running), what="those at hand to go back")
        await expect_nothing_counted(worker)


async def is_zero(connection: asyncpg.Connection, sql: str) -> bool:
    return bool(await connection.fetchval(sql) == 0)


# Several workers


async def test_later_worker_gets_its_share_of_a_limit(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    meter = Meter(app, gated=True)
    await app.set_limit("queue:default", slots=4)
    await app.enqueue_many(meter.task.prepare() for _ in range(60))
    async with worker_of(app, SLOTS) as one:
        await meter.begun(4)
        async with worker_of(app, SLOTS) as other:
            await until(lambda: waits(connection), what="the other to wait")
            for ended in range(1, 9):
                meter.let_go(1)
                await meter.begun(4 + ended)
            await until(lambda: granted_is(connection, [2, 2]), what="equal parts")
            meter.let_all_go()
            await meter.ended(60)
            await expect_nothing_counted(one, other)
    assert meter.most["all"] == 4


async def waits(connection: asyncpg.Connection) -> bool:
    waiting = 'SELECT true FROM penstock."grant" WHERE slots = 0 AND wanted > 0'
    return bool(await connection.fetchval(waiting))


async def test_parts_are_equal_also_where_nobody_is_told(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_notifications(monkeypatch)
    meter = Meter(app, gated=True)
    await app.set_limit("queue:default", slots=4)
    await app.enqueue_many(meter.task.prepare() for _ in range(4000))
    async with worker_of(app, SLOTS, **BRIEF) as one, worker_of(app, SLOTS, **BRIEF) as other:
        meter.let_all_go()
        await until(lambda: one.tally.settled > 20 and other.tally.settled > 20, what="both")
        await until(lambda: granted_is(connection, [2, 2]), what="equal parts")
    assert meter.most["all"] == 4


async def test_slots_that_are_not_used_any_more_are_given_back(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    meter = Meter(app, limits="account:{who}")
    await app.set_limit("account:*", slots=1)
    async with worker_of(app, SLOTS, limit_idle=0.2) as worker:
        await app.enqueue_many(meter.task.prepare(str(n)) for n in range(50))
        await meter.ended(50)
        await until(lambda: not worker_state(worker).limits, what="the limits to be forgotten")
        left = 'SELECT count(*) FROM penstock."grant"'
        await until(lambda: is_zero(connection, left), what="all to be given back")


async def test_worker_without_jobs_neither_holds_nor_waits_for_slots(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    meter = Meter(app, gated=True)
    await app.set_limit("queue:default", slots=2)
    await app.enqueue_many(meter.task.prepare() for _ in range(10))
    async with worker_of(app, SLOTS, **BRIEF):
        await meter.begun(2)
        # Only now: two who begin together may have a slot each, and then none waits.
        async with worker_of(app, SLOTS, **BRIEF):
            await until(lambda: waits(connection), what="the other to wait")
            meter.let_all_go()
            await meter.ended(10)
            await until(lambda: granted_is(connection, []), what="nobody to hold or wait")


# A lost lease


async def test_after_a_lost_lease_the_slots_are_asked_for_anew(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    meter = Meter(app, gated=True)
    await app.set_limit("queue:default", slots=2)
    async with worker_of(app, SLOTS, heartbeat=0.1) as worker:
        await app.enqueue_many(meter.task.prepare() for _ in range(10))
        await meter.begun(2)
        lease = worker_state(worker).lease
        await end_leases(connection)
        await until(lambda: worker_state(worker).lease not in (None, lease), what="a new lease")
        await meter.begun(4)
        assert meter.running == 2
        assert await granted(connection, "queue:default") == [2]
        meter.let_all_go()
        await until(lambda: nothing_left(connection), what="all jobs")
        await expect_nothing_counted(worker)
    assert meter.most["all"] == 2


async def nothing_left(connection: asyncpg.Connection) -> bool:
    return await is_zero(connection, "SELECT count(*) FROM penstock.job")


async def test_grant_under_a_dead_lease_replaces_the_lease(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    meter = Meter(app)
    async with worker_of(app, SLOTS, heartbeat=5, lease=60) as worker:
        lease = await lease_held(worker)
        await end_leases(connection)
        await app.set_limit("queue:default", slots=2)
        await rules_known(app, worker)
        await app.enqueue(meter.task)
        await meter.ended(1)
        assert worker_state(worker).lease != lease


# A job at hand that is cancelled, a job that runs alone


async def test_a_job_that_is_cancelled_at_hand_is_no_longer_counted(app: Penstock) -> None:
    meter = Meter(app, gated=True)
    await app.set_limit("queue:default", slots=1)
    jobs = await app.enqueue_many(meter.task.prepare() for _ in range(6))
    async with worker_of(app, SLOTS) as worker:
        await meter.begun(1)
        # As if they were quick: one is fetched ahead.
        expect_quick_jobs(worker, limit="queue:default")
        claim_again(worker)
        await until(lambda: len(queue_state(worker).fetched) == 1, what="one at hand")
        [ahead] = queue_state(worker).fetched
        await app.cancel(str(ahead))
        await until(lambda: ahead not in queue_state(worker).fetched, what="it to go")
        meter.let_all_go()
        await meter.ended(len(jobs) - 1)
        await expect_nothing_counted(worker)


@pytest.mark.parametrize("end", ["run", "cancel", "lapse"])
async def test_a_job_that_waits_to_run_alone_keeps_its_slot(
    app: Penstock, connection: asyncpg.Connection, end: str
) -> None:
    meter = Meter(app, gated=True)
    await app.set_limit("queue:default", slots=2)
    _, lost = await app.enqueue_many(meter.task.prepare(who) for who in ("first", "lost"))
    await connection.execute("UPDATE penstock.job SET suspect = true WHERE id = $1", int(lost.id))
    async with worker_of(app, SLOTS, isolation_wait=60) as worker:
        await meter.begun(1)
        await until(lambda: worker_state(worker).exclusive, what="the job to be set apart")
        assert limit(worker).used == 2
        if end == "cancel":
            await app.cancel(lost)
            await until(lambda: not worker_state(worker).exclusive, what="it to go")
        if end == "lapse":
            lease = worker_state(worker).lease
            lose_lease(worker)
            await connection.execute(
                "UPDATE penstock.lease SET expires_at = clock_timestamp() WHERE id = $1", lease
            )
        meter.let_all_go()
        await until(lambda: nothing_left(connection), what="all jobs")
        await expect_nothing_counted(worker)


# Rates


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a token was found fresh for each job: after that the machine may keep it waiting."""
    at: list[float] = []
    begin = LimitKeeper.count_start
    is_fresh = Bucket.may_use.fget
    found_fresh = 0.0

    def may_use(self: Bucket) -> bool:
        nonlocal found_fresh
        now = time.monotonic()
        if usable := bool(is_fresh(self)):
            found_fresh = now
        return usable

    def noted(self: LimitKeeper, job: ClaimedJob) -> None:
        at.append(found_fresh)
        begin(self, job)

    monkeypatch.setattr(Bucket, "may_use", property(may_use))
    monkeypatch.setattr(LimitKeeper, "count_start", noted)
    return at


def most_at_once(times: Iterable[float], rate: float) -> float:
    """By how much the starts of any stretch of time were more than what ran in meanwhile."""
    numbered = list(enumerate(times))
    return max(n - m + 1 - rate * (b - a) for (m, a), (n, b) in combinations(numbered, 2))


async def test_no_more_start_than_the_burst_and_what_runs_in(
    app: Penstock, starts: list[float]
) -> None:
    rate, burst, jobs = 40.0, 5, 45
    meter = Meter(app, limits="openai")
    await app.set_limit("openai", rate=rate, burst=burst)
    await app.enqueue_many(meter.task.prepare() for _ in range(jobs))
    async with worker_of(app, SLOTS), worker_of(app, SLOTS):
        await meter.ended(jobs)
    # A token is good for a tenth of a second.
    assert most_at_once(starts, rate) <= burst + rate * 0.1
    assert starts[-1] - starts[0] <= 10 * (jobs - burst) / rate, "most of the rate is not used"


async def test_tokens_that_are_not_used_at_once_go_back(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """Kept, they would be used on top of a full bucket."""
    meter = Meter(app)
    await app.set_limit("queue:default", rate=0.001, burst=8)
    async with worker_of(app, SLOTS) as worker:
        await app.enqueue(meter.task)
        await meter.ended(1)
        await until(lambda: limit(worker).tokens == 0, what="tokens to go back")
        await until(lambda: level_is(connection, 7), what="tokens to be back")
        await expect_nothing_counted(worker)


async def test_a_job_that_no_child_had_time_for_has_used_no_start(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_is_free(self: ChildPool, *_: object) -> None:
        raise NotStarted

    monkeypatch.setattr(ChildPool, "process_of", lambda *_: Process())
    monkeypatch.setattr(ChildPool, "run", none_is_free)
    meter = Meter(app, limits="openai")
    await app.set_limit("openai", rate=0.001, burst=3)
    async with worker_of(app, SLOTS) as worker:
        await app.enqueue(meter.task)
        await until(lambda: worker.tally.released, what="the job to go back")
    await until(lambda: level_is(connection, 3), what="the start to be back")


async def level_is(connection: asyncpg.Connection, level: int) -> bool:
    return bool(round(await connection.fetchval("SELECT level FROM penstock.bucket")) == level)


async def test_late_refusal_of_a_changed_rate_is_ignored(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes late: meanwhile the worker was told of the new rate."""
    meter = Meter(app)
    await app.set_limit("queue:default", rate=0.001, burst=2)
    refused, go_on = asyncio.Event(), asyncio.Event()
    take = LimitStatements.take

    async def late(self: LimitStatements, *args: Any) -> Any:
        taken = await take(self, *args)
        if not go_on.is_set() and any(wait for _, wait in taken.values()):
            refused.set()
            await go_on.wait()
        return taken

    monkeypatch.setattr(LimitStatements, "take", late)
    async with worker_of(app, SLOTS) as worker:
        await app.enqueue_many(meter.task.prepare() for _ in range(10))
        await asyncio.wait_for(refused.wait(), 30)
        await app.set_limit("queue:default", rate=1000, burst=100)
        await rules_known(app, worker)
        go_on.set()
        await meter.ended(10)


@pytest.mark.parametrize("limit", [{"slots": 1}, {"slots": 1, "rate": 10, "burst": 10}])
async def test_worker_does_not_spin_while_it_waits_for_a_limit(
    app: Penstock, limit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = 0
    tick = LimitKeeper.tick

    async def counting(self: LimitKeeper) -> float:
        nonlocal ticks
        ticks += 1
        return await tick(self)

    monkeypatch.setattr(LimitKeeper, "tick", counting)
    meter = Meter(app, gated=True)
    await app.set_limit("queue:default", **limit)
    async with worker_of(app, SLOTS):
        await app.enqueue_many(meter.task.prepare() for _ in range(10))
        await meter.begun(1)
        before, began = ticks, asyncio.get_running_loop().time()
        await asyncio.sleep(0.5)  # The time is what is measured.
        assert (ticks - before) / (asyncio.get_running_loop().time() - began) < 25
        meter.let_all_go()
        await meter.ended(10)


# Very many keys


async def test_very_many_keys_are_asked_for_in_parts(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "MAX_KEYS_PER_STATEMENT", 50)
    meter = Meter(app, limits="account:{who}")
    await app.set_limit("account:*", slots=1)
    await app.enqueue_many(meter.task.prepare(str(n)) for n in range(600))
    async with worker_of(app, {"default": 300}) as worker:
        await meter.ended(600)
        await expect_nothing_counted(worker)
