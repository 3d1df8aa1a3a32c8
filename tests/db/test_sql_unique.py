"""Unique keys in SQL: who holds one, how long, and what becomes of the next."""

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.engine import NOON, Engine

SECOND = timedelta(seconds=1)


def rule(key: str = "k", **more: Any) -> str:
    return json.dumps({"key": key} | more)


async def put(engine: Engine, *rules: str | None, **columns: Any) -> list[tuple[int, bool]]:
    """Enqueue one job for each rule: its id, and whether it was there before."""
    given = {name: [value] * len(rules) for name, value in columns.items()}
    args = given.pop("args", [json.dumps({"n": n}) for n in range(len(rules))])
    rows = await engine.call(
        "enqueue_v1",
        tasks=["work"] * len(rules),
        args=args,
        uniques=list(rules),
        now=engine.now,
        **given,
    )
    return [(row["id"], row["duplicate"]) for row in rows]


async def one(engine: Engine, **more: Any) -> tuple[int, bool]:
    [answer] = await put(engine, rule(**more))
    return answer


async def holder(engine: Engine, key: str = "k") -> int | None:
    sql = "SELECT job FROM penstock.unique_claim WHERE kind = 'unique' AND key = $1"
    return await engine.connection.fetchval(sql, key)


async def begun(engine: Engine) -> asyncpg.Record:
    """The only ready job, claimed."""
    [attempt] = await engine.claim(await engine.lease())
    return attempt


# How long a key is held


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_a_settle_in_any_final_state_frees_the_key(engine: Engine, end: str) -> None:
    first, _ = await one(engine)
    attempt = await begun(engine)
    assert await one(engine) == (first, True)
    reason = None if end == "completed" else "discarded"
    assert await engine.settle([attempt], states=end, reasons=reason) == {}
    assert await holder(engine) is None
    assert (await one(engine))[1] is False


async def test_a_retry_and_a_snooze_keep_it(engine: Engine) -> None:
    first, _ = await one(engine)
    for state in ("ready", "scheduled"):
        await engine.settle([await begun(engine)], states=state)
        assert await one(engine) == (first, True)


async def test_an_expired_a_deleted_and_a_cancelled_job_free_it(engine: Engine) -> None:
    engine.now = NOON
    await put(engine, rule(), deadlines=NOON + SECOND)
    await engine.value("expire_v1", now=NOON + 2 * SECOND)
    assert await holder(engine) is None
    deleted, _ = await one(engine)
    await engine.answers("delete_v1", deleted)
    cancelled, is_duplicate = await one(engine)
    assert not is_duplicate
    await engine.answers("cancel_v1", cancelled)
    assert await holder(engine) is None


async def test_a_job_that_is_given_up_with_its_worker_frees_it(engine: Engine) -> None:
    first, _ = await one(engine)
    for losses in range(1, 4):
        await engine.mark_started([await begun(engine)])
        assert await holder(engine) == first
        await engine.connection.execute("UPDATE penstock.lease SET expires_at = 'epoch'")
        await engine.call("rescue_v1")
        assert (await engine.job(first))["losses"] == losses
    assert (await engine.job(first))["state"] == "failed"
    assert await holder(engine) is None


async def test_a_key_is_kept_for_a_time_after_the_end(engine: Engine) -> None:
    engine.now = NOON
    first, _ = await one(engine, keep=60)
    await engine.settle([await begun(engine)])
    engine.now = NOON + 59 * SECOND
    assert await one(engine, keep=60) == (first, True)
    engine.now = NOON + 60 * SECOND
    assert (await one(engine, keep=60))[1] is False


async def test_a_kept_key_is_swept_when_its_time_is_over(engine: Engine) -> None:
    engine.now = NOON
    first, _ = await one(engine, keep=60)
    await engine.settle([await begun(engine)])
    await engine.call("sweep_v1", now=NOON + 59 * SECOND)
    assert await holder(engine) == first
    await engine.call("sweep_v1", now=NOON + 61 * SECOND)
    assert await holder(engine) is None


async def test_unique_period_ends_on_the_clock_not_with_the_job(engine: Engine) -> None:
    engine.now = NOON + 10 * SECOND
    first, _ = await one(engine, period=60)
    await engine.settle([await begun(engine)])
    engine.now = NOON + 59 * SECOND
    assert await one(engine, period=60) == (first, True)
    engine.now = NOON + 60 * SECOND
    second, is_duplicate = await one(engine, period=60)
    assert not is_duplicate
    assert await one(engine, period=60) == (second, True)


async def test_jobs_of_two_periods_may_run_together(engine: Engine) -> None:
    engine.now = NOON
    await one(engine, period=60)
    engine.now = NOON + 60 * SECOND
    assert (await one(engine, period=60))[1] is False
    assert len(await engine.states()) == 2


async def test_tenants_have_keys_of_their_own(engine: Engine) -> None:
    [(a, _)] = await put(engine, rule(), tenants="a")
    [(b, is_duplicate)] = await put(engine, rule(), tenants="b")
    assert a != b
    assert not is_duplicate
    assert await put(engine, rule(), tenants="a") == [(a, True)]


# While it waits


async def test_key_held_while_waiting_is_freed_at_the_start(engine: Engine) -> None:
    first, _ = await one(engine, hold="waiting")
    assert await one(engine, hold="waiting") == (first, True)
    running = await begun(engine)
    second, is_duplicate = await one(engine, hold="waiting")
    assert (second != first, is_duplicate) == (True, False)
    assert await one(engine, hold="waiting") == (second, True)
    await engine.settle([running])
    assert await holder(engine) == second, "the end of the first is none of the second's"


async def test_duplicate_of_an_open_transaction_does_not_start_yet(
    engine: Engine, other: Engine
) -> None:
    first, _ = await one(engine, hold="waiting")
    lease = await other.lease()
    async with engine.connection.transaction():
        assert await one(engine, hold="waiting") == (first, True)
        assert await other.claim(lease) == []
    assert [each["id"] for each in await other.claim(lease)] == [first]


# On conflict


async def test_raise_names_the_key_and_the_job(engine: Engine) -> None:
    first, _ = await one(engine, on_conflict="raise")
    with pytest.raises(asyncpg.PostgresError) as caught:
        await one(engine, on_conflict="raise")
    assert caught.value.sqlstate == "PS010"
    assert json.loads(caught.value.detail) == ["k", str(first)]


async def test_replace_resets_arguments_time_and_failures(engine: Engine) -> None:
    engine.now = NOON
    [(first, _)] = await put(engine, rule(), priorities=5)
    await engine.settle(
        [(await engine.claim(await engine.lease(), lines=[("", 5)]))[0]],
        states="scheduled", delays=900.0, failures=1, reasons="unknown_task", stuck=True,
    )  # fmt: skip
    await engine.connection.execute(
        "INSERT INTO penstock.step (job, name, result) VALUES ($1, 'fetch', '1')", first
    )
    later = NOON + 30 * SECOND
    again = await put(
        engine, rule(on_conflict="replace"), args='{"n": "new"}', run_ats=later, queues="other"
    )
    assert again == [(first, True)]
    job = await engine.job(first)
    assert (job["args"], job["run_at"], job["state"]) == ('{"n": "new"}', later, "scheduled")
    assert (job["queue"], job["priority"], job["failures"]) == ("other", 0, 0)
    assert (job["reason"], job["stuck_since"], job["attempt"]) == (None, None, 1)
    steps = await engine.connection.fetchval("SELECT count(*) FROM penstock.step")
    assert steps == 0, "they were taken with the old arguments"


async def test_what_runs_is_not_replaced_but_followed(engine: Engine) -> None:
    first, _ = await one(engine, on_conflict="replace")
    running = await begun(engine)
    second, is_duplicate = await one(engine, on_conflict="replace")
    assert (second != first, is_duplicate) == (True, False)
    assert await one(engine, on_conflict="replace") == (second, True)
    assert await engine.settle([running]) == {}
    assert await holder(engine) == second


async def test_one_that_waits_for_an_event_is_in_the_midst_of_its_work(engine: Engine) -> None:
    first, _ = await one(engine, on_conflict="replace")
    await engine.connection.execute("UPDATE penstock.job SET state = 'blocked', ready_at = NULL")
    second, is_duplicate = await one(engine, on_conflict="replace")
    assert (second != first, is_duplicate) == (True, False)
    assert await engine.states() == {first: "blocked", second: "ready"}


async def test_replace_leaves_an_ended_job_alone_while_its_key_is_kept(engine: Engine) -> None:
    first, _ = await one(engine, keep=60, on_conflict="replace")
    await engine.settle([await begun(engine)])
    assert await one(engine, keep=60, on_conflict="replace") == (first, True)
    assert (await engine.job(first))["state"] == "completed"


@pytest.mark.parametrize("is_running", [True, False])
async def test_supersede_cancels_the_older_running_or_not(engine: Engine, is_running: bool) -> None:
    first, _ = await one(engine, on_conflict="supersede")
    attempt = await begun(engine) if is_running else None
    second, is_duplicate = await one(engine, on_conflict="supersede")
    assert (second != first, is_duplicate) == (True, False)
    job = await engine.job(first)
    assert (job["state"], job["reason"]) == ("cancelled", "superseded")
    assert await holder(engine) == second
    if attempt is not None:
        signals = await engine.connection.fetch("SELECT job, kind FROM penstock.signal")
        assert [tuple(each) for each in signals] == [(first, "cancelled")]
        with pytest.raises(asyncpg.PostgresError, match="no longer belongs"):
            await engine.call(
                "save_step_v1", job=first, token=attempt["token"], kind="step", name="late",
                result="1", now=None,
            )  # fmt: skip
        assert await engine.settle([attempt]) == {first: "cancelled"}
        assert (await engine.job(first))["state"] == "cancelled"


async def test_to_supersede_while_waiting_leaves_what_runs_alone(engine: Engine) -> None:
    first, _ = await one(engine, hold="waiting", on_conflict="supersede")
    await begun(engine)
    second, _ = await one(engine, hold="waiting", on_conflict="supersede")
    third, _ = await one(engine, hold="waiting", on_conflict="supersede")
    assert await engine.states() == {first: "running", second: "cancelled", third: "ready"}


async def test_a_key_whose_job_was_removed_by_hand_is_free(engine: Engine) -> None:
    for on_conflict in ("skip", "replace", "supersede", "raise"):
        await engine.connection.execute("DELETE FROM penstock.job")
        assert (await one(engine, on_conflict=on_conflict))[1] is False


# In bulk


async def test_first_duplicate_of_a_call_wins_with_replace_the_last(engine: Engine) -> None:
    skipped = await put(engine, rule("a"), None, rule("a"), rule("b"), rule("a"))
    assert [is_duplicate for _, is_duplicate in skipped] == [False, False, True, False, True]
    assert len({id for id, _ in skipped}) == 3
    assert (await engine.job(skipped[4][0]))["args"] == '{"n": 0}'
    replaced = await put(engine, *[rule("c", on_conflict="replace")] * 3)
    assert [is_duplicate for _, is_duplicate in replaced] == [True, True, False]
    assert (await engine.job(replaced[0][0]))["args"] == '{"n": 2}'
    superseded = await put(engine, *[rule("c", on_conflict="supersede")] * 2)
    assert (await engine.job(superseded[0][0]))["args"] == '{"n": 1}'
    assert (await engine.job(replaced[0][0]))["reason"] == "superseded"


async def test_two_of_one_call_that_want_to_hear_of_it_are_told(engine: Engine) -> None:
    with pytest.raises(asyncpg.PostgresError, match="two jobs of one call"):
        await put(engine, *[rule(on_conflict="raise")] * 2)


async def test_bulk_enqueue_with_many_duplicates_raises_nothing(engine: Engine) -> None:
    even = range(0, 500, 2)
    before = dict(zip(even, await put(engine, *map(key, even)), strict=True))
    answers = await put(engine, *[key(n % 500) for n in range(1000)])
    ids = [id for id, _ in answers]
    assert ids[:500] == ids[500:]
    assert all(ids[n] == before[n][0] for n in before)
    new = [n for n, (_, is_duplicate) in enumerate(answers) if not is_duplicate]
    assert new == list(range(1, 500, 2))
    assert len(await engine.states()) == 500


def key(number: int) -> str:
    return rule(str(number))


async def test_idempotency_key_stands_for_the_job_its_unique_key_found(engine: Engine) -> None:
    first, _ = await one(engine)
    keyed = {"keys": "i", "fingerprints": b"", "args": "{}"}
    again = await put(engine, rule(), rule(), **keyed)
    assert again == [(first, True)] * 2
    await engine.answers("cancel_v1", first)
    assert await put(engine, rule(), **keyed) == [(first, True)]


# Run again


async def test_a_job_that_is_run_again_takes_its_key_or_is_held_by_it(engine: Engine) -> None:
    first, _ = await one(engine)
    await engine.answers("cancel_v1", first)
    second, _ = await one(engine)
    assert await engine.answers("retry_v1", first) == {first: "held"}
    await engine.answers("cancel_v1", second)
    assert await engine.answers("retry_v1", first, second) == {first: "ready", second: "held"}
    assert await one(engine) == (first, True)


async def test_refused_retry_in_an_open_transaction_blocks_no_settle(
    engine: Engine, other: Engine
) -> None:
    first, _ = await one(engine)
    await engine.answers("cancel_v1", first)
    await one(engine)
    running = await begun(other)
    async with engine.connection.transaction():
        assert await engine.answers("retry_v1", first) == {first: "held"}
        assert await other.settle([running]) == {}


async def test_a_kept_key_is_the_jobs_own_when_it_is_run_again(engine: Engine) -> None:
    engine.now = NOON
    first, _ = await one(engine, keep=60)
    await engine.settle([await begun(engine)])
    assert await engine.answers("retry_v1", first, now=NOON) == {first: "ready"}
    await engine.settle([await begun(engine)])
    engine.now = NOON + 59 * SECOND
    assert await one(engine, keep=60) == (first, True)
