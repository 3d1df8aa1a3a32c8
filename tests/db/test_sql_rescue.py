"""Jobs come back from workers that are lost, and from no others."""

import asyncio
import json
from datetime import datetime, timedelta

import asyncpg
import pytest

from tests.db.engine import NOON, Engine


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def noon(engine: Engine) -> None:
    engine.now = NOON


async def rescue(engine: Engine, now: datetime, limit: int = 1000) -> dict[int, bool]:
    rows = await engine.call("rescue_v1", limit=limit, now=now)
    return {row["id"]: row["lost"] for row in rows}


async def overtime(engine: Engine, now: datetime, grace: float = 10.0) -> dict[int, bool]:
    rows = await engine.call("rescue_overtime_v1", grace=grace, now=now)
    return {row["id"]: row["lost"] for row in rows}


async def test_rescued_job_is_a_ready_suspect_without_a_loss(engine: Engine) -> None:
    attempt = await engine.attempt(await engine.lease("the lost worker", ttl=60))
    assert not attempt["suspect"]
    assert await rescue(engine, after(59)) == {}
    assert await rescue(engine, after(60)) == {attempt["id"]: False}
    row = await engine.live(attempt["id"])
    assert row is not None
    assert (row["state"], row["reason"], row["losses"]) == ("ready", "worker_lost", 0)
    assert row["suspect"]
    assert (row["failures"], row["attempt"], row["token"], row["lease"]) == (0, 1, None, None)
    [error] = json.loads(row["errors"])
    assert (error["kind"], error["worker"], error["attempt"]) == ("lost", "the lost worker", 1)
    assert error["message"].endswith("No loss is counted: nobody knows whether it had begun.")
    assert datetime.fromisoformat(error["at"]) == after(60)
    [again] = await engine.claim(await engine.lease())
    assert again["suspect"]


async def test_an_attempt_that_was_marked_as_begun_costs_a_loss(engine: Engine) -> None:
    attempt = await engine.begun(await engine.lease(ttl=60))
    assert await rescue(engine, after(60)) == {attempt["id"]: False}
    row = await engine.live(attempt["id"])
    assert row is not None
    assert (row["state"], row["losses"], row["suspect"]) == ("ready", 1, True)
    [error] = json.loads(row["errors"])
    assert "No loss" not in error["message"]


async def test_the_mark_of_an_attempt_says_nothing_of_the_next(engine: Engine) -> None:
    attempt = await engine.begun(lease := await engine.lease(ttl=60))
    await engine.value("release_jobs_v1", lease=lease)
    await engine.claim(lease)
    assert await rescue(engine, after(60)) == {attempt["id"]: False}
    assert (await engine.job(attempt["id"]))["losses"] == 0


async def test_an_attempt_that_has_lost_its_job_is_not_marked(
    engine: Engine, other: Engine
) -> None:
    lost = await engine.attempt(lease := await engine.lease())
    await engine.value("release_jobs_v1", lease=lease)
    await engine.claim(lease)
    settled, kept, held = [await engine.attempt(lease) for _ in range(3)]
    await engine.settle([settled])
    async with other.connection.transaction():
        await other.answers("cancel_v1", held["id"])
        marked = await engine.mark_started([lost, settled, kept, held])
    # It does not wait for whoever holds one of them.
    assert marked == {kept["token"]: True, held["token"]: False}
    assert await engine.mark_started([lost, settled, held]) == {}
    marks = "SELECT id, begun_token FROM penstock.job"
    rows = [tuple(row) for row in await engine.connection.fetch(marks)]
    assert sorted(rows) == [(lost["id"], None), (kept["id"], kept["token"])]


@pytest.mark.parametrize("durability", ["off", "local", "remote_write"])
async def test_a_mark_is_durable(engine: Engine, durability: str) -> None:
    attempt = await engine.attempt()
    async with engine.connection.transaction():
        await engine.connection.execute(f"SET LOCAL synchronous_commit = {durability}")
        await engine.mark_started([attempt])
        assert await engine.connection.fetchval("SHOW synchronous_commit") == "on"


async def test_a_mark_that_is_under_way_is_seen_by_the_next_rescue(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    async with other.connection.transaction():
        await other.mark_started([attempt])
        assert await rescue(engine, after(61)) == {}
    assert await rescue(engine, after(61)) == {attempt["id"]: False}
    assert (await engine.job(attempt["id"]))["losses"] == 1


async def test_no_number_of_kills_fails_a_job_that_has_not_begun(engine: Engine) -> None:
    """Nor makes its row grow for ever."""
    [id] = await engine.enqueue()
    for round in range(25):
        engine.now = after(round * 100)
        await engine.claim(await engine.lease(ttl=60))
        assert await rescue(engine, after(round * 100 + 60)) == {id: False}
    job = await engine.job(id)
    assert (job["state"], job["losses"], job["attempt"]) == ("ready", 0, 25)
    assert [error["attempt"] for error in json.loads(job["errors"])] == [*range(16, 26)]


@pytest.mark.parametrize("living", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
async def test_jobs_of_living_leases_are_never_touched(
    engine: Engine, living: tuple[int, ...]
) -> None:
    leases = [await engine.lease(ttl=100 if i in living else 10) for i in range(3)]
    attempts = [await engine.attempt(lease) for lease in leases]
    dead = {attempts[i]["id"]: False for i in range(3) if i not in living}
    assert await rescue(engine, after(50)) == dead
    states = await engine.states()
    assert {id for id, state in states.items() if state == "ready"} == dead.keys()


async def test_a_job_whose_lease_is_gone_altogether_is_rescued(engine: Engine) -> None:
    lease = await engine.lease()
    attempt = await engine.attempt(lease)
    await engine.connection.execute("DELETE FROM penstock.lease")
    assert await rescue(engine, NOON) == {attempt["id"]: False}
    [error] = json.loads((await engine.job(attempt["id"]))["errors"])
    assert error["worker"] == f"lease {lease}"


async def test_a_renewed_lease_keeps_its_jobs(engine: Engine) -> None:
    lease = await engine.lease(ttl=60)
    await engine.attempt(lease)
    await engine.call("heartbeat_v1", lease=lease, ttl=60.0, now=after(59))
    assert await rescue(engine, after(100)) == {}
    assert len(await rescue(engine, after(119))) == 1


async def test_a_heartbeat_never_revives_a_lease(engine: Engine) -> None:
    lease = await engine.lease(ttl=60)
    attempt = await engine.attempt(lease)
    [beat] = await engine.call("heartbeat_v1", lease=lease, ttl=60.0, now=after(60))
    assert not beat["alive"]
    assert await rescue(engine, after(60)) == {attempt["id"]: False}
    [beat] = await engine.call("heartbeat_v1", lease=lease + 1, ttl=60.0, now=NOON)
    assert not beat["alive"]


async def test_job_fails_as_worker_lost_once_losses_reach_the_limit(engine: Engine) -> None:
    """Only suspects are marked before they begin, so the first kill is never counted."""
    [id] = await engine.enqueue()
    rescued = []
    for round in range(4):
        engine.now = after(round * 100)
        [attempt] = await engine.claim(await engine.lease(ttl=60))
        if attempt["suspect"]:
            await engine.mark_started([attempt])
        rescued.append(await rescue(engine, after(round * 100 + 60)))
    assert rescued == [{id: False}, {id: False}, {id: False}, {id: True}]
    job = await engine.job(id)
    assert (job["state"], job["reason"], job["losses"]) == ("failed", "worker_lost", 3)
    assert (job["attempt"], job["failures"]) == (4, 0)
    assert [error["attempt"] for error in json.loads(job["errors"])] == [1, 2, 3, 4]


REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON penstock.job_history
    FOR EACH ROW WHEN (NEW.subject = 'bad') EXECUTE FUNCTION public.refuse();
"""


REFUSE_READY = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON penstock.job
    FOR EACH ROW WHEN (NEW.state = 'ready' AND NEW.subject = 'bad')
    EXECUTE FUNCTION public.refuse();
"""


async def test_rescue_goes_on_past_a_job_that_cannot_be_failed(engine: Engine) -> None:
    lease = await engine.lease(ttl=60)
    bad = await engine.begun(lease, subjects="bad")
    good = await engine.begun(lease, subjects="good")
    fresh = await engine.attempt(lease)
    await engine.connection.execute("UPDATE penstock.job SET losses = 2 WHERE subject IS NOT NULL")
    await engine.connection.execute(REFUSE)
    assert await rescue(engine, after(60)) == {good["id"]: True, fresh["id"]: False}
    await engine.connection.execute("DROP FUNCTION public.refuse CASCADE")
    assert await rescue(engine, after(60)) == {bad["id"]: True}


async def test_rescue_goes_on_past_a_job_that_cannot_be_made_ready(engine: Engine) -> None:
    lease = await engine.lease(ttl=60)
    bad = await engine.begun(lease, subjects="bad")
    fresh = await engine.attempt(lease)
    last = await engine.begun(lease, subjects="good")
    await engine.connection.execute("UPDATE penstock.job SET losses = 2 WHERE subject = 'good'")
    await engine.connection.execute(REFUSE_READY)
    assert await rescue(engine, after(60)) == {fresh["id"]: False, last["id"]: True}
    stays = await engine.live(bad["id"])
    assert stays is not None
    assert (stays["state"], stays["losses"]) == ("running", 0)
    await engine.connection.execute("DROP FUNCTION public.refuse CASCADE")
    assert await rescue(engine, after(60)) == {bad["id"]: False}


async def test_a_retry_by_hand_clears_the_suspicion_with_the_losses(engine: Engine) -> None:
    attempt = await engine.begun()
    await engine.connection.execute("UPDATE penstock.job SET losses = 2")
    assert await rescue(engine, after(61)) == {attempt["id"]: True}
    await engine.answers("retry_v1", attempt["id"])
    row = await engine.live(attempt["id"])
    assert row is not None
    assert (row["losses"], row["suspect"], row["begun_token"]) == (0, False, None)


async def test_no_more_than_the_limit_is_rescued_at_once(engine: Engine) -> None:
    await engine.enqueue(5)
    await engine.claim(await engine.lease(ttl=10), 3)
    await engine.claim(await engine.lease(ttl=10), 2)
    counts = [len(await rescue(engine, after(20), limit=2)) for _ in range(4)]
    assert counts == [2, 2, 1, 0]


async def test_a_settle_that_is_under_way_wins_over_the_rescuer(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    async with other.connection.transaction():
        assert await other.settle([attempt]) == {}
        assert await rescue(engine, after(61)) == {}
    assert (await engine.job(attempt["id"]))["state"] == "completed"
    assert await rescue(engine, after(61)) == {}


async def test_a_rescue_that_is_under_way_wins_over_the_settler(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    async with other.connection.transaction():
        assert await rescue(other, after(61)) == {attempt["id"]: False}
        assert await engine.settle([attempt]) == {attempt["id"]: "busy"}
    assert await engine.settle([attempt]) == {attempt["id"]: "refused"}
    assert (await engine.job(attempt["id"]))["state"] == "ready"


async def test_after_a_rescue_that_was_rolled_back_the_settle_succeeds(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    transaction = other.connection.transaction()
    await transaction.start()
    await rescue(other, after(61))
    assert await engine.settle([attempt]) == {attempt["id"]: "busy"}
    await transaction.rollback()
    assert await engine.settle([attempt]) == {}


async def test_concurrent_rescue_and_settle_never_share_a_job(
    engine: Engine, other: Engine
) -> None:
    await engine.enqueue(200)
    attempts = await engine.claim(await engine.lease())
    rescued, refused = await asyncio.gather(
        rescue(other, after(61)), engine.settle(attempts, results="1")
    )
    refused |= await engine.settle([each for each in attempts if each["id"] in refused])
    settled = {each["id"] for each in attempts} - refused.keys()
    assert rescued.keys() == refused.keys()
    states = await engine.states()
    assert {id for id, state in states.items() if state == "completed"} == settled
    assert {id for id, state in states.items() if state == "ready"} == rescued.keys()


async def test_two_rescuers_at_the_same_time_count_one_loss(engine: Engine, other: Engine) -> None:
    attempt = await engine.begun()
    async with other.connection.transaction():
        await rescue(other, after(61))
        assert await rescue(engine, after(61)) == {}
    assert (await engine.job(attempt["id"]))["losses"] == 1


async def test_rescue_skips_a_job_that_was_claimed_anew(engine: Engine) -> None:
    lease = await engine.lease(ttl=60)
    seen = await engine.attempt(lease)
    await engine.value("release_jobs_v1", lease=lease)
    [newer] = await engine.claim(await engine.lease(ttl=1000))
    taken = await engine.call(
        "mark_worker_lost_v1",
        ids=[seen["id"]],
        tokens=[seen["token"]],
        kind="lost",
        type="WorkerLost",
        message="",
        has_begun=True,
        now=after(61),
    )
    assert taken == []
    row = await engine.live(seen["id"])
    assert row is not None
    assert (row["token"], row["losses"]) == (newer["token"], 0)


async def test_overtime_job_is_rescued_from_a_living_lease(engine: Engine) -> None:
    lease = await engine.lease(ttl=1000)
    slow = await engine.begun(lease, timeouts=30.0)
    await engine.attempt(lease, timeouts=300.0)
    await engine.attempt(lease)
    assert await overtime(engine, after(40)) == {}
    assert await overtime(engine, after(41)) == {slow["id"]: False}
    job = await engine.job(slow["id"])
    assert (job["state"], job["losses"]) == ("ready", 1)
    [error] = json.loads(job["errors"])
    assert (error["kind"], error["type"]) == ("timeout", "Overtime")
    assert await engine.settle([slow]) == {slow["id"]: "refused"}
    assert await rescue(engine, after(41)) == {}


async def test_overtime_spares_a_worker_with_unwritten_outcomes(engine: Engine) -> None:
    lease = await engine.lease(ttl=1000)
    ended = await engine.begun(lease, timeouts=30.0)
    info = json.dumps({"unwritten": {"jobs": 1, "error": "E", "message": "m"}})
    await engine.call("heartbeat_v1", lease=lease, ttl=1000.0, info=info, now=NOON)
    assert await overtime(engine, after(41)) == {}
    info = json.dumps({"unwritten": None})
    await engine.call("heartbeat_v1", lease=lease, ttl=1000.0, info=info, now=NOON)
    assert await overtime(engine, after(41)) == {ended["id"]: False}


async def test_overtime_takes_other_jobs_of_a_worker_that_still_claims(engine: Engine) -> None:
    lease = await engine.lease(ttl=1000)
    ended = await engine.begun(lease, timeouts=30.0)
    stuck = await engine.begun(lease, timeouts=30.0)
    unwritten = {"jobs": 1, "is_claiming": True, "ids": [str(ended["id"])]}
    info = json.dumps({"unwritten": unwritten})
    await engine.call("heartbeat_v1", lease=lease, ttl=1000.0, info=info, now=NOON)
    assert await overtime(engine, after(41)) == {stuck["id"]: False}


async def test_lost_workers_unwritten_outcome_counts_a_loss(engine: Engine) -> None:
    """It alone: what else the worker had may not have begun."""
    lease = await engine.lease(ttl=60)
    ended, other = [await engine.attempt(lease) for _ in range(2)]
    theirs = await engine.attempt(await engine.lease(ttl=60))
    unwritten = {"jobs": 1, "message": "no right", "ids": [str(ended["id"]), str(theirs["id"])]}
    info = json.dumps({"unwritten": unwritten})
    await engine.call("heartbeat_v1", lease=lease, ttl=60.0, info=info, now=NOON)
    ids = {ended["id"], other["id"], theirs["id"]}
    assert await rescue(engine, after(61)) == dict.fromkeys(ids, False)
    job = await engine.job(ended["id"])
    assert (job["state"], job["reason"], job["losses"]) == ("ready", "unwritten", 1)
    [error] = json.loads(job["errors"])
    assert (error["kind"], error["type"]) == ("unwritten", "OutcomeUnwritten")
    assert error["message"].endswith("could not be written: no right")
    for attempt in (other, theirs):
        job = await engine.job(attempt["id"])
        assert (job["state"], job["reason"], job["losses"]) == ("ready", "worker_lost", 0)


@pytest.mark.parametrize("said", [None, 5, {}, {"ids": None}, {"ids": 7}, {"ids": {"x": 1}}])
async def test_odd_words_of_a_lost_worker_on_its_outcomes_keep_no_job(
    engine: Engine, said: object
) -> None:
    """Anyone's SQL may open a lease."""
    lease = await engine.lease(ttl=60)
    attempt = await engine.attempt(lease)
    info = json.dumps({"unwritten": said})
    await engine.call("heartbeat_v1", lease=lease, ttl=60.0, info=info, now=NOON)
    assert await rescue(engine, after(61)) == {attempt["id"]: False}
    assert (await engine.job(attempt["id"]))["reason"] == "worker_lost"


async def test_overtime_job_that_never_began_counts_no_loss(engine: Engine) -> None:
    waiting = await engine.attempt(await engine.lease(ttl=1000), timeouts=30.0)
    assert await overtime(engine, after(41)) == {waiting["id"]: False}
    row = await engine.live(waiting["id"])
    assert row is not None
    assert (row["state"], row["losses"], row["suspect"]) == ("ready", 0, True)


async def test_overtime_search_bears_the_longest_timeout(engine: Engine) -> None:
    lease = await engine.lease(ttl=1000)
    await engine.attempt(lease, timeouts=366 * 86400.0)
    assert await overtime(engine, after(900)) == {}
    for endless in (float("inf"), float("nan"), 1e300):
        with pytest.raises(asyncpg.CheckViolationError, match="timeout_in_range"):
            await engine.enqueue(timeouts=endless)
