"""Who gets which job, in which order."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from tests.db.engine import LONG_AGO, NOON, Engine
from tests.fixtures.database import Database


def ids(rows: list[asyncpg.Record]) -> list[int]:
    return [row["id"] for row in rows]


async def test_claimed_job_has_a_lease_and_one_more_attempt(engine: Engine) -> None:
    engine.now = NOON
    [id] = await engine.enqueue()
    lease = await engine.lease()
    [claimed] = await engine.claim(lease)
    row = await engine.live(id)
    assert row is not None
    assert (row["state"], row["lease"], row["attempt"]) == ("running", lease, 1)
    assert (row["token"], row["attempted_at"]) == (claimed["token"], NOON)


async def test_claim_serves_priorities_in_the_order_asked_for(engine: Engine) -> None:
    low, high, middle = [
        (await engine.enqueue(priorities=priority))[0] for priority in (-5, 100, 7)
    ]
    lease = await engine.lease()
    lines = [("", 100), ("", 7), ("", -5)]
    claims = [await engine.claim(lease, 1, lines=lines) for _ in range(3)]
    assert [ids(claim) for claim in claims] == [[high], [middle], [low]]


async def test_within_a_line_the_one_ready_first_goes_first(engine: Engine) -> None:
    [retried, waiting] = await engine.enqueue(2)
    lease = await engine.lease()
    [attempt] = await engine.claim(lease, 1)
    assert attempt["id"] == retried
    await engine.settle([attempt], states="ready")
    claims = [await engine.claim(lease, 1) for _ in range(2)]
    assert [ids(claim) for claim in claims] == [[waiting], [retried]]


async def test_lower_id_goes_first_among_jobs_ready_at_once(engine: Engine) -> None:
    engine.now = NOON
    jobs = await engine.enqueue(5)
    lease = await engine.lease()
    assert [ids(await engine.claim(lease, 2)) for _ in range(3)] == [
        jobs[:2],
        jobs[2:4],
        jobs[4:],
    ]


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_a_claim_takes_no_more_than_its_limit(engine: Engine, limit: int) -> None:
    await engine.enqueue(2)
    await engine.enqueue(2, priorities=5)
    lease = await engine.lease()
    assert len(await engine.claim(lease, limit, lines=[("", 5), ("", 0)])) == limit


async def test_only_the_named_queue_and_lines_are_claimed(engine: Engine) -> None:
    [wanted] = await engine.enqueue(queues="mail", lanes="acme", priorities=1)
    await engine.enqueue(queues="mail", lanes="acme", priorities=2)
    await engine.enqueue(queues="mail", lanes="other", priorities=1)
    await engine.enqueue(queues="default", lanes="acme", priorities=1)
    lease = await engine.lease()
    assert ids(await engine.claim(lease, queue="mail", lines=[("acme", 1)])) == [wanted]


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(engine: Engine) -> None:
    jobs = await engine.enqueue(2, queues="mail")
    [elsewhere] = await engine.enqueue()
    lease = await engine.lease()
    await engine.connection.execute(
        "INSERT INTO penstock.queue (name, paused_at) VALUES ('mail', now())"
    )
    assert await engine.claim(lease, queue="mail") == []
    assert ids(await engine.claim(lease)) == [elsewhere]
    await engine.connection.execute("UPDATE penstock.queue SET paused_at = NULL")
    assert ids(await engine.claim(lease, queue="mail")) == jobs


async def test_a_claim_starts_at_the_mark_of_its_line(engine: Engine) -> None:
    engine.now = NOON
    jobs = await engine.enqueue(4)
    lease = await engine.lease()
    assert ids(await engine.claim(lease, cursors=[(NOON, jobs[2])])) == jobs[2:]
    assert await engine.claim(lease, cursors=[(NOON + timedelta(microseconds=1), 0)]) == []
    assert ids(await engine.claim(lease, cursors=[(LONG_AGO, 0)])) == jobs[:2]


async def test_a_job_past_its_deadline_is_not_claimed(engine: Engine) -> None:
    engine.now = NOON
    [late] = await engine.enqueue(deadlines=NOON)
    [on_time] = await engine.enqueue(deadlines=NOON + timedelta(seconds=1))
    assert ids(await engine.claim(await engine.lease())) == [on_time]
    assert (await engine.job(late))["state"] == "ready"


async def test_jobs_that_are_not_ready_are_not_claimed(engine: Engine) -> None:
    lease = await engine.lease()
    await engine.enqueue(delays=60.0)
    await engine.attempt(lease)
    assert await engine.claim(lease) == []


async def test_every_job_of_every_claim_has_a_token_of_its_own(engine: Engine) -> None:
    await engine.enqueue(100)
    lease = await engine.lease()
    first = {row["token"] for row in await engine.claim(lease)}
    await engine.value("release_jobs_v1", lease=lease)
    second = {row["token"] for row in await engine.claim(lease)}
    assert len(first | second) == 200


@pytest.mark.parametrize("ended", ["expired", "closed", "never opened"])
async def test_without_a_living_lease_nothing_can_be_claimed(engine: Engine, ended: str) -> None:
    engine.now = NOON
    [id] = await engine.enqueue()
    lease = await engine.lease(ttl=10)
    if ended == "closed":
        await engine.value("close_lease_v1", lease=lease)
    elif ended == "expired":
        engine.now = NOON + timedelta(seconds=10)
    else:
        lease += 1
    with pytest.raises(asyncpg.PostgresError) as caught:
        await engine.claim(lease)
    assert caught.value.sqlstate == "PS001"
    assert (await engine.job(id))["state"] == "ready"


async def test_claim_skips_jobs_that_another_claim_has_locked(
    engine: Engine, other: Engine
) -> None:
    jobs = await engine.enqueue(6)
    mine, theirs = await engine.lease(), await other.lease()
    async with other.connection.transaction():
        taken = await other.claim(theirs, 4)
        await engine.connection.execute("SET statement_timeout = '30s'")
        assert ids(await engine.claim(mine)) == jobs[4:]
    assert ids(taken) == jobs[:4]


async def test_claimers_at_the_same_time_never_get_the_same_job(database: Database) -> None:
    async def drain(engine: Engine, lease: int) -> list[int]:
        got: list[int] = []
        while batch := await engine.claim(lease, 7):
            got += ids(batch)
        return got

    async with database.connect() as connection:
        jobs = await Engine(connection).enqueue(1000)
    async with (
        database.connect() as one,
        database.connect() as two,
        database.connect() as three,
        database.connect() as four,
    ):
        engines = [Engine(connection) for connection in (one, two, three, four)]
        leases = [await engine.lease() for engine in engines]
        got = await asyncio.gather(*map(drain, engines, leases))
    assert sorted(id for each in got for id in each) == jobs


async def test_claim_returns_extra_columns_only_when_set(engine: Engine) -> None:
    engine.now = NOON
    await engine.enqueue()
    await engine.enqueue(subjects="document:1", tags='["a", "b"]', metas='{"trace": 1}')
    plain, rich = await engine.claim(await engine.lease())
    assert plain["extra"] is None
    assert '"document:1"' in rich["extra"]
    assert '["a", "b"]' in rich["extra"]


async def test_lines_with_ready_jobs_are_found_each_with_its_first_job(engine: Engine) -> None:
    engine.now = NOON
    first = {}
    for lane, priority in [("b", 0), ("a", -1), ("a", 5), ("", 0)]:
        [first[lane, priority], _] = await engine.enqueue(2, lanes=lane, priorities=priority)
    await engine.enqueue(lanes="c", delays=1.0)
    await engine.enqueue(lanes="a", queues="mail")
    rows = await engine.call("scan_lanes_v1", queue="default")
    assert [(row["lane"], row["priority"]) for row in rows] == [
        ("", 0),
        ("a", 5),
        ("a", -1),
        ("b", 0),
    ]
    assert {(row["lane"], row["priority"]): row["id"] for row in rows} == first
    assert {row["ready_at"] for row in rows} == {NOON}
    assert len(await engine.call("scan_lanes_v1", queue="default", limit=2)) == 2
    assert await engine.call("scan_lanes_v1", queue="nobody's") == []
