"""What runs in the background: promote, expire, elect, sweep."""

import asyncio
from datetime import datetime, timedelta

import asyncpg
import pytest

from tests.db.engine import LONG_AGO, NOON, Engine
from tests.fixtures.until import until


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def noon(engine: Engine, other: Engine) -> None:
    engine.now = other.now = NOON


async def promote(engine: Engine, now: datetime, **arguments: object) -> asyncpg.Record:
    [row] = await engine.call("promote_v1", now=now, **arguments)
    return row


async def test_jobs_are_promoted_when_their_time_has_come(engine: Engine) -> None:
    [soon] = await engine.enqueue(delays=10.0)
    [later] = await engine.enqueue(delays=20.0)
    promotion = await promote(engine, after(9))
    assert (promotion["promoted"], promotion["next_in"]) == (0, 1.0)
    promotion = await promote(engine, after(10))
    assert (promotion["promoted"], promotion["upto"], promotion["next_in"]) == (1, after(10), 10.0)
    assert await engine.states() == {soon: "ready", later: "scheduled"}
    row = await engine.live(soon)
    assert row is not None
    assert (row["ready_at"], row["run_at"]) == (after(10), after(10))
    promotion = await promote(engine, after(30), after=promotion["upto"])
    assert (promotion["promoted"], promotion["next_in"]) == (1, None)


async def test_promotion_goes_on_where_it_stopped(engine: Engine) -> None:
    jobs = [(await engine.enqueue(delays=float(delay)))[0] for delay in (1, 2, 2, 2, 3)]
    upto, promoted = LONG_AGO, []
    for _ in range(3):
        promotion = await promote(engine, after(5), after=upto, limit=2)
        upto, _ = promotion["upto"], promoted.append(promotion["promoted"])
    assert promoted == [2, 2, 1]
    assert await engine.states() == dict.fromkeys(jobs, "ready")


async def test_more_due_than_the_limit_means_go_on_at_once(engine: Engine) -> None:
    await engine.enqueue(3, delays=1.0)
    promotion = await promote(engine, after(5), limit=2)
    assert (promotion["promoted"], promotion["next_in"]) == (2, -4.0)


async def test_two_promoters_do_not_wait_for_each_other(engine: Engine, other: Engine) -> None:
    await engine.enqueue(4, delays=1.0)
    await engine.connection.execute("SET statement_timeout = '30s'")
    async with other.connection.transaction():
        assert (await promote(other, after(5), limit=3))["promoted"] == 3
        assert (await promote(engine, after(5)))["promoted"] == 1


async def test_deadline_expires_waiting_jobs_but_not_running_ones(engine: Engine) -> None:
    attempt = await engine.attempt(deadlines=after(10))
    [ready] = await engine.enqueue(deadlines=after(10))
    [scheduled] = await engine.enqueue(deadlines=after(10), delays=60.0)
    [patient] = await engine.enqueue(deadlines=after(11))
    [endless] = await engine.enqueue()
    assert await engine.value("expire_v1", now=after(9)) == 0
    assert await engine.value("expire_v1", now=after(10)) == 2
    assert await engine.states() == {
        attempt["id"]: "running",
        ready: "cancelled",
        scheduled: "cancelled",
        patient: "ready",
        endless: "ready",
    }
    job = await engine.job(ready)
    assert (job["reason"], job["finished_at"]) == ("expired", after(10))
    assert await engine.settle([attempt]) == {}


async def test_no_more_than_the_limit_expires_at_once(engine: Engine) -> None:
    await engine.enqueue(5, deadlines=after(1))
    assert [await engine.value("expire_v1", limit=2, now=after(2)) for _ in range(4)] == [
        2,
        2,
        1,
        0,
    ]


async def elect(engine: Engine, lease: int, now: datetime = NOON, ttl: float = 30.0) -> bool:
    return await engine.value("elect_v1", role="maintenance", lease=lease, ttl=ttl, now=now)


async def test_the_first_one_leads_and_stays_the_leader(engine: Engine) -> None:
    one, two = await engine.lease(), await engine.lease()
    assert await elect(engine, one)
    assert not await elect(engine, two)
    assert await elect(engine, one, after(20))
    row = await engine.connection.fetchrow("SELECT * FROM penstock.leader")
    assert row is not None
    assert (row["lease"], row["elected_at"], row["expires_at"]) == (one, NOON, after(50))


async def test_a_leader_whose_term_ran_out_is_followed(engine: Engine) -> None:
    one, two = await engine.lease(), await engine.lease()
    await elect(engine, one, ttl=30)
    assert not await elect(engine, two, after(29))
    assert await elect(engine, two, after(30))
    assert not await elect(engine, one, after(31))


async def test_dead_lease_ends_a_leaders_term_early(engine: Engine) -> None:
    one, two = await engine.lease(ttl=10), await engine.lease()
    await elect(engine, one, ttl=1000)
    assert not await elect(engine, two, after(9))
    assert await elect(engine, two, after(10))


async def test_nobody_leads_without_a_living_lease(engine: Engine) -> None:
    lease = await engine.lease(ttl=10)
    assert not await elect(engine, lease, after(10))
    assert not await elect(engine, lease + 1)


async def test_of_two_who_want_to_lead_at_the_same_moment_one_does(
    engine: Engine, other: Engine
) -> None:
    one, two = await engine.lease(), await engine.lease()
    async with asyncio.TaskGroup() as group, engine.connection.transaction():
        assert await elect(engine, one)
        second = group.create_task(elect(other, two))
        await until(engine.keeps_waiting, what="the second one to wait for the first")
    assert not second.result()


async def test_sweep_removes_dead_leases_with_grants_after_an_hour(engine: Engine) -> None:
    dead, living = await engine.lease(ttl=10), await engine.lease(ttl=100_000)
    for lease in (dead, living):
        await engine.connection.execute(
            "INSERT INTO penstock.grant (lease, key, slots) VALUES ($1, 'model', 1)", lease
        )
        attempt = await engine.attempt(lease)
        await engine.answers("cancel_v1", attempt["id"], now=NOON)
    [swept] = await engine.call("sweep_v1", now=after(10 + 3600))
    assert swept["leases"] == 0
    [swept] = await engine.call("sweep_v1", now=after(11 + 3600))
    assert swept["leases"] == 1
    for table in ("lease", '"grant"', "signal"):
        column = "id" if table == "lease" else "lease"
        left = await engine.connection.fetch(f"SELECT {column} FROM penstock.{table}")
        assert [row[0] for row in left] == [living]


async def test_a_dead_lease_is_kept_while_a_job_still_names_it(engine: Engine) -> None:
    lease = await engine.lease(ttl=10)
    await engine.attempt(lease)
    [swept] = await engine.call("sweep_v1", now=after(100_000))
    assert swept["leases"] == 0
    await engine.call("rescue_v1", now=after(100_000))
    [swept] = await engine.call("sweep_v1", now=after(100_000))
    assert swept["leases"] == 1


async def test_old_keys_are_swept(engine: Engine) -> None:
    await engine.enqueue(keys="order:1")
    [swept] = await engine.call("sweep_v1", now=NOON + timedelta(days=7, seconds=-1))
    assert swept["keys"] == 0
    [swept] = await engine.call("sweep_v1", now=NOON + timedelta(days=7))
    assert swept["keys"] == 1


async def test_progress_of_jobs_that_are_gone_is_swept(engine: Engine) -> None:
    lease = await engine.lease()
    await engine.enqueue(3)
    gone, final, running = attempts = await engine.claim(lease)
    await engine.call(
        "save_progress_v1",
        ids=[each["id"] for each in attempts],
        tokens=[each["token"] for each in attempts],
        done=[1.0] * 3,
        totals=[2.0] * 3,
        messages=[None] * 3,
        now=NOON,
    )
    await engine.settle([gone, final])
    # As if its partition had been dropped.
    await engine.connection.execute("DELETE FROM penstock.job_history WHERE id = $1", gone["id"])
    # Nobody asks before the longest retention is over.
    [swept] = await engine.call("sweep_v1", now=NOON + timedelta(days=38))
    assert swept["progress"] == 0
    [swept] = await engine.call("sweep_v1", now=NOON + timedelta(days=39))
    assert swept["progress"] == 1
    left = await engine.connection.fetch("SELECT job FROM penstock.progress ORDER BY job")
    assert [row["job"] for row in left] == [final["id"], running["id"]]


EMPTIED = """
ALTER TABLE penstock.progress SET (autovacuum_enabled = off);
INSERT INTO penstock.progress (job, done) SELECT n, 1 FROM generate_series(1, 1000) AS n;
DELETE FROM penstock.progress;
ANALYZE penstock.progress;
INSERT INTO penstock.progress (job, done, updated_at)
SELECT n, 1, CASE WHEN n > 20 THEN timestamptz '2999-01-01' ELSE '1999-01-01' END
  FROM generate_series(1, 20000) AS n;
SET statement_timeout = '30s';
"""


async def test_sweep_plans_well_on_a_table_analysed_while_empty(engine: Engine) -> None:
    await engine.connection.execute(EMPTIED)
    [swept] = await engine.call("sweep_v1", now=NOON)
    assert swept["progress"] == 20


async def test_sweep_removes_an_unclosed_batch_long_after_its_jobs(engine: Engine) -> None:
    add = "INSERT INTO penstock.batch (created_at, closed_at) VALUES ($1, $2) RETURNING id"
    forgotten, used, busy = [await engine.connection.fetchval(add, NOON, None) for _ in range(3)]
    closed = await engine.connection.fetchval(add, NOON, NOON)
    await engine.connection.execute(
        "UPDATE penstock.batch SET folded_at = $2 WHERE id = $1", used, NOON + timedelta(days=36)
    )
    await engine.call("enqueue_v1", tasks=["work"], args=["{}"], batch=busy)
    for days, left in ((38, [forgotten, used, busy, closed]), (39, [used, busy, closed])):
        await engine.call("sweep_v1", now=NOON + timedelta(days=days))
        rows = await engine.connection.fetch("SELECT id FROM penstock.batch ORDER BY id")
        assert [row["id"] for row in rows] == left


# Queues without a worker


async def unserved(engine: Engine, now: datetime, seconds: float = 0.0) -> dict[str, float]:
    rows = await engine.call("list_unserved_queues_v1", seconds=seconds, now=now)
    return {row["queue"]: row["seconds"] for row in rows}


async def test_queues_whose_ready_jobs_nobody_serves_are_found(engine: Engine) -> None:
    await engine.enqueue(2, queues="mail")
    await engine.enqueue(queues="reports")
    await engine.enqueue(queues="later", delays=60.0)
    assert await unserved(engine, after(9), seconds=10.0) == {}
    assert await unserved(engine, after(10), seconds=10.0) == {"mail": 10.0, "reports": 10.0}
    await engine.connection.execute(
        "SELECT penstock.open_lease_v1('ada', 60, '{\"queues\": {\"mail\": 1}}', p_now => $1)", NOON
    )
    assert await unserved(engine, after(20)) == {"reports": 20.0}
    assert await unserved(engine, after(61)) == {"mail": 61.0, "reports": 61.0}
    await engine.connection.execute(
        "INSERT INTO penstock.queue (name, paused_at) VALUES ('reports', $1)", NOON
    )
    assert await unserved(engine, after(61)) == {"mail": 61.0}


async def test_a_lease_that_says_nothing_of_queues_serves_none(engine: Engine) -> None:
    await engine.enqueue(queues="mail")
    for info in ("{}", '{"queues": null}', '{"queues": ["mail"]}'):
        await engine.connection.execute(
            "SELECT penstock.open_lease_v1('psql', 60, $1::jsonb, p_now => $2)", info, NOON
        )
    assert await unserved(engine, after(1)) == {"mail": 1.0}
