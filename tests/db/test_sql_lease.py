"""A worker session: opened, renewed, told what it must know, given back."""

import json
from datetime import timedelta

import asyncpg
import pytest

from tests.db.engine import NOON, Engine


async def beat(engine: Engine, lease: int, **arguments: object) -> asyncpg.Record:
    [row] = await engine.call("heartbeat_v1", lease=lease, ttl=60.0, **arguments)
    return row


async def test_heartbeat_renews_a_lease_for_its_whole_ttl(engine: Engine) -> None:
    engine.now = NOON
    lease = await engine.lease("worker 7", ttl=60)
    later = NOON + timedelta(seconds=59)
    info = json.dumps({"running": 3})
    assert (await beat(engine, lease, info=info, now=later))["alive"]
    row = await engine.connection.fetchrow("SELECT * FROM penstock.lease")
    assert row is not None
    assert (row["worker"], row["info"]) == ("worker 7", '{"running": 3}')
    assert (row["created_at"], row["renewed_at"]) == (NOON, later)
    assert row["expires_at"] == later + timedelta(seconds=60)


async def test_next_heartbeat_returns_a_cancel_once(engine: Engine) -> None:
    lease, neighbour = await engine.lease(), await engine.lease()
    attempt = await engine.attempt(lease)
    await engine.answers("cancel_v1", attempt["id"])
    assert json.loads((await beat(engine, neighbour))["signals"]) == []
    signals = json.loads((await beat(engine, lease))["signals"])
    assert signals == [[attempt["id"], str(attempt["token"]), "cancelled"]]
    assert json.loads((await beat(engine, lease))["signals"]) == []


async def test_strangers_go_back_and_what_the_worker_knows_stays(engine: Engine) -> None:
    engine.now = NOON
    await engine.enqueue(3)
    lease, neighbour = await engine.lease(), await engine.lease()
    known, stranger = await engine.claim(lease, 2)
    [theirs] = await engine.claim(neighbour)
    assert await engine.value("release_jobs_v1", lease=lease, keep=[known["id"]]) == 1
    assert await engine.states() == {
        known["id"]: "running",
        stranger["id"]: "ready",
        theirs["id"]: "running",
    }
    row = await engine.live(stranger["id"])
    assert row is not None
    assert (row["attempt"], row["failures"], row["losses"], row["token"]) == (1, 0, 0, None)
    assert await engine.settle([stranger]) == {stranger["id"]: "refused"}
    assert await engine.settle([known]) == {}


async def test_the_end_of_a_session_gives_its_jobs_back_uncounted(engine: Engine) -> None:
    lease, neighbour = await engine.lease(), await engine.lease()
    await engine.enqueue(3)
    mine = await engine.claim(lease, 2)
    [theirs] = await engine.claim(neighbour)
    assert await engine.value("elect_v1", role="maintenance", lease=lease, ttl=60.0)
    await engine.connection.execute(
        "INSERT INTO penstock.grant (lease, key, slots) VALUES ($1, 'model', 2)", lease
    )
    assert await engine.value("close_lease_v1", lease=lease) == 2
    states = await engine.states()
    assert [states[each["id"]] for each in (*mine, theirs)] == ["ready", "ready", "running"]
    jobs = [await engine.job(each["id"]) for each in mine]
    assert [(job["failures"], job["losses"]) for job in jobs] == [(0, 0), (0, 0)]
    for table in ("leader", '"grant"', "signal"):
        assert await engine.connection.fetchval(f"SELECT count(*) FROM penstock.{table}") == 0
    assert await engine.connection.fetchval("SELECT array_agg(id) FROM penstock.lease") == [
        neighbour
    ]


async def test_a_session_closed_twice_is_closed(engine: Engine) -> None:
    lease = await engine.lease()
    assert [await engine.value("close_lease_v1", lease=lease) for _ in range(2)] == [0, 0]


async def test_a_settle_under_way_when_its_session_closes_still_counts(
    engine: Engine, other: Engine
) -> None:
    lease = await engine.lease()
    attempt = await engine.attempt(lease)
    async with other.connection.transaction():
        await other.settle([attempt])
        assert await engine.value("close_lease_v1", lease=lease) == 0
    assert await engine.states() == {attempt["id"]: "completed"}


async def test_fence_locks_the_job_until_its_transaction_ends(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    async with other.connection.transaction():
        await other.call("fence_v1", id=attempt["id"], token=attempt["token"])
        assert await engine.settle([attempt]) == {attempt["id"]: "busy"}
        later = NOON + timedelta(days=7)
        assert await engine.call("rescue_v1", now=later) == []
    assert await engine.settle([attempt]) == {}


@pytest.mark.parametrize(
    ("lost", "sqlstate"),
    [("released", "PS003"), ("expired", "PS001"), ("cancelled", "PS003"), ("settled", "PS004")],
)
async def test_fence_refuses_an_attempt_that_lost_its_job(
    engine: Engine, lost: str, sqlstate: str
) -> None:
    engine.now = NOON
    lease = await engine.lease(ttl=60)
    attempt = await engine.attempt(lease)
    now = NOON
    if lost == "released":
        await engine.value("release_jobs_v1", lease=lease)
        await engine.claim(lease)
    elif lost == "cancelled":
        await engine.answers("cancel_v1", attempt["id"])
    elif lost == "settled":
        await engine.settle([attempt])
    else:
        now = NOON + timedelta(seconds=60)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await engine.call("fence_v1", id=attempt["id"], token=attempt["token"], now=now)
    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize(("own", "becomes"), [("0", "42s"), ("30s", "30s"), ("1h", "42s")])
async def test_fence_limits_idle_time_to_the_rest_of_the_lease(
    engine: Engine, own: str, becomes: str
) -> None:
    engine.now = NOON
    attempt = await engine.attempt(await engine.lease(ttl=60))
    async with engine.connection.transaction():
        await engine.connection.execute(f"SET idle_in_transaction_session_timeout = '{own}'")
        await engine.call(
            "fence_v1",
            id=attempt["id"],
            token=attempt["token"],
            now=NOON + timedelta(seconds=18),
        )
        limit = await engine.connection.fetchval("SHOW idle_in_transaction_session_timeout")
        assert limit == becomes


async def test_only_the_attempt_that_owns_the_job_reports_progress(engine: Engine) -> None:
    lease = await engine.lease()
    old = await engine.attempt(lease)
    await engine.value("release_jobs_v1", lease=lease)
    [new] = await engine.claim(lease)

    async def report(attempt: asyncpg.Record, done: float) -> list[int]:
        rows = await engine.call(
            "save_progress_v1",
            ids=[attempt["id"]],
            tokens=[attempt["token"]],
            done=[done],
            totals=[10.0],
            messages=["pages"],
        )
        return [row[0] for row in rows]

    assert await report(new, 4.0) == []
    assert await report(old, 2.0) == [old["id"]]
    assert await report(new, 5.0) == []
    row = await engine.connection.fetchrow("SELECT * FROM penstock.progress")
    assert row is not None
    assert (row["done"], row["total"], row["message"], row["version"]) == (5, 10, "pages", 2)
