"""What becomes of an attempt: settled, refused, busy or cancelled."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.db.engine import NOON, Engine

FINAL = [
    {"states": "completed", "results": '{"pages": 3}'},
    {"states": "failed", "reasons": "exhausted", "failures": 1, "errors": '{"type": "Broken"}'},
    {"states": "cancelled", "reasons": "handler"},
]
NOT_FINAL = [
    {"states": "scheduled", "delays": 30.0, "failures": 1, "errors": '{"type": "Broken"}'},
    {"states": "scheduled", "delays": 30.0},
    {"states": "scheduled", "delays": 10.0, "reasons": "unknown_task", "stuck": True},
    {"states": "ready"},
]
OUTCOMES = FINAL + NOT_FINAL


async def row_of(engine: Engine, id: int) -> dict[str, Any]:
    """Everything stored about a job, so that a comparison shows any change."""
    live = await engine.live(id)
    return dict(live) if live else dict(await engine.job(id))


async def test_with_nothing_said_the_attempt_completes(engine: Engine) -> None:
    engine.now = NOON
    attempt = await engine.attempt()
    rows = await engine.call(
        "settle_v1", ids=[attempt["id"]], tokens=[attempt["token"]], now=engine.now
    )
    assert rows == []
    job = await engine.job(attempt["id"])
    assert (job["state"], job["reason"], job["result"]) == ("completed", None, None)
    assert (job["finished_at"], job["last_token"]) == (NOON, attempt["token"])
    assert await engine.live(attempt["id"]) is None


@pytest.mark.parametrize("outcome", FINAL)
async def test_a_final_outcome_moves_the_job_to_history(
    engine: Engine, outcome: dict[str, Any]
) -> None:
    attempt = await engine.attempt(subjects="document:1", metas='{"trace": 1}', tags='["a"]')
    assert await engine.settle([attempt], **outcome) == {}
    job = await engine.job(attempt["id"])
    assert job["state"] == outcome["states"]
    assert job["reason"] == outcome.get("reasons")
    assert job["failures"] == outcome.get("failures", 0)
    assert job["result"] == outcome.get("results")
    assert (job["subject"], job["meta"], job["tags"]) == ("document:1", '{"trace": 1}', ["a"])
    assert await engine.live(attempt["id"]) is None


@pytest.mark.parametrize("outcome", NOT_FINAL)
async def test_an_outcome_that_is_not_final_puts_the_job_back(
    engine: Engine, outcome: dict[str, Any]
) -> None:
    engine.now = NOON
    attempt = await engine.attempt()
    assert await engine.settle([attempt], **outcome) == {}
    row = await engine.live(attempt["id"])
    assert row is not None
    assert (row["state"], row["reason"]) == (outcome["states"], outcome.get("reasons"))
    assert (row["lease"], row["token"], row["last_token"]) == (None, None, attempt["token"])
    assert row["run_at"] == NOON + timedelta(seconds=outcome.get("delays", 0))
    assert (row["attempt"], row["failures"]) == (1, outcome.get("failures", 0))
    assert row["stuck_since"] == (NOON if outcome.get("stuck") else None)
    assert (row["ready_at"] is None) == (row["state"] == "scheduled")


async def test_errors_of_all_attempts_are_kept_with_their_time(engine: Engine) -> None:
    times = [NOON + timedelta(seconds=second) for second in range(4)]
    engine.now = times[0]
    lease = await engine.lease()
    attempt = await engine.attempt(lease)
    engine.now = times[1]
    await engine.settle([attempt], states="ready", failures=1, errors='{"type": "First"}')
    engine.now = times[2]
    [attempt] = await engine.claim(lease)
    engine.now = times[3]
    await engine.settle([attempt], states="failed", reasons="x", errors='{"type": "Second"}')
    errors = json.loads((await engine.job(attempt["id"]))["errors"])
    assert [error["type"] for error in errors] == ["First", "Second"]
    assert [datetime.fromisoformat(error["began"]) for error in errors] == [times[0], times[2]]
    assert [datetime.fromisoformat(error["at"]) for error in errors] == [times[1], times[3]]


async def test_a_job_stuck_again_keeps_the_time_since_when(engine: Engine) -> None:
    engine.now = NOON
    lease = await engine.lease(ttl=1000)
    attempt = await engine.attempt(lease)
    await engine.settle([attempt], states="ready", stuck=True)
    engine.now = NOON + timedelta(seconds=60)
    [attempt] = await engine.claim(lease)
    await engine.settle([attempt], states="ready", stuck=True)
    row = await engine.live(attempt["id"])
    assert row is not None
    assert row["stuck_since"] == NOON


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_repeated_settle_succeeds_and_changes_nothing(
    engine: Engine, outcome: dict[str, Any]
) -> None:
    attempt = await engine.attempt()
    assert await engine.settle([attempt], **outcome) == {}
    before = await row_of(engine, attempt["id"])
    assert await engine.settle([attempt], **outcome) == {}
    assert await row_of(engine, attempt["id"]) == before


async def test_repeated_settle_succeeds_while_the_next_attempt_runs(engine: Engine) -> None:
    lease = await engine.lease()
    first = await engine.attempt(lease)
    await engine.settle([first], states="ready")
    await engine.claim(lease)
    before = await row_of(engine, first["id"])
    assert await engine.settle([first], states="ready") == {}
    assert await row_of(engine, first["id"]) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_lost_worker_cannot_settle_after_another_claimed_the_job(
    engine: Engine, outcome: dict[str, Any]
) -> None:
    engine.now = NOON
    frozen = await engine.attempt()
    engine.now = NOON + timedelta(seconds=61)
    assert len(await engine.call("rescue_v1", now=engine.now)) == 1
    [_] = await engine.claim(await engine.lease())
    before = await row_of(engine, frozen["id"])
    assert await engine.settle([frozen], **outcome) == {frozen["id"]: "refused"}
    assert await row_of(engine, frozen["id"]) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_lost_worker_cannot_settle_while_the_job_waits(
    engine: Engine, outcome: dict[str, Any]
) -> None:
    engine.now = NOON
    frozen = await engine.attempt()
    await engine.call("rescue_v1", now=NOON + timedelta(seconds=61))
    before = await row_of(engine, frozen["id"])
    assert await engine.settle([frozen], **outcome) == {frozen["id"]: "refused"}
    assert await row_of(engine, frozen["id"]) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_an_old_attempt_cannot_change_what_a_newer_one_settled(
    engine: Engine, outcome: dict[str, Any]
) -> None:
    engine.now = NOON
    frozen = await engine.attempt()
    engine.now = NOON + timedelta(seconds=61)
    await engine.call("rescue_v1", now=engine.now)
    [newer] = await engine.claim(await engine.lease())
    await engine.settle([newer], results='"right"')
    before = await row_of(engine, frozen["id"])
    assert await engine.settle([frozen], **outcome) == {frozen["id"]: "refused"}
    assert await row_of(engine, frozen["id"]) == before


async def test_the_number_of_the_attempt_is_no_fence(engine: Engine) -> None:
    lease = await engine.lease()
    old = await engine.attempt(lease)
    await engine.value("release_jobs_v1", lease=lease)
    await engine.connection.execute("UPDATE penstock.job SET attempt = 0")
    [new] = await engine.claim(lease)
    assert new["attempt"] == old["attempt"]
    assert await engine.settle([old]) == {old["id"]: "refused"}
    assert await engine.settle([new]) == {}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("state", ["ready", "scheduled", "running"])
async def test_a_settle_without_a_token_is_refused(
    engine: Engine, state: str, outcome: dict[str, Any]
) -> None:
    [id] = await engine.enqueue(delays=60.0 if state == "scheduled" else 0.0)
    if state == "running":
        await engine.claim(await engine.lease())
    before = await row_of(engine, id)
    assert await engine.settle_tokens([id], [None], **outcome) == {id: "refused"}
    assert await row_of(engine, id) == before


async def test_a_token_of_another_job_of_the_same_claim_is_refused(engine: Engine) -> None:
    await engine.enqueue(2)
    one, two = await engine.claim(await engine.lease())
    answers = await engine.settle_tokens([one["id"], two["id"]], [two["token"], one["token"]])
    assert answers == {one["id"]: "refused", two["id"]: "refused"}
    assert set((await engine.states()).values()) == {"running"}


async def test_an_unknown_job_is_refused(engine: Engine) -> None:
    assert await engine.settle_tokens([404], [uuid4()]) == {404: "refused"}


async def test_the_late_settle_of_a_cancelled_job_is_told_so(engine: Engine) -> None:
    attempt = await engine.attempt()
    await engine.answers("cancel_v1", attempt["id"])
    before = await row_of(engine, attempt["id"])
    assert await engine.settle([attempt]) == {attempt["id"]: "cancelled"}
    assert await row_of(engine, attempt["id"]) == before


async def test_one_refused_settle_does_not_hinder_its_neighbours(engine: Engine) -> None:
    await engine.enqueue(4)
    attempts = await engine.claim(await engine.lease())
    bad = attempts[1]
    rows = await engine.call(
        "settle_v1",
        ids=[each["id"] for each in attempts],
        tokens=[uuid4() if each is bad else each["token"] for each in attempts],
        states=["completed", "completed", "scheduled", "cancelled"],
        reasons=[None, None, None, "handler"],
        delays=[0.0, 0.0, 5.0, 0.0],
    )
    assert {row["id"]: row["answer"] for row in rows} == {bad["id"]: "refused"}
    assert list((await engine.states()).values()) == [
        "completed",
        "running",
        "scheduled",
        "cancelled",
    ]


async def test_locked_row_is_busy_and_other_rows_settle(engine: Engine, other: Engine) -> None:
    await engine.enqueue(3)
    attempts = await engine.claim(await engine.lease())
    held = attempts[1]["id"]
    states = ["completed", "completed", "scheduled"]
    columns = {
        "ids": [each["id"] for each in attempts],
        "tokens": [each["token"] for each in attempts],
        "states": states,
        "results": ['"one"', '"two"', None],
    }
    await engine.connection.execute("SET statement_timeout = '30s'")
    async with other.connection.transaction():
        await other.connection.execute("SELECT FROM penstock.job WHERE id = $1 FOR UPDATE", held)
        rows = await engine.call("settle_v1", **columns)
        assert [(row["id"], row["answer"]) for row in rows] == [(held, "busy")]
        assert list((await engine.states()).values()) == ["completed", "running", "scheduled"]
    assert await engine.call("settle_v1", **columns) == []
    assert list((await engine.states()).values()) == states
    results = [(await engine.job(each["id"]))["result"] for each in attempts]
    assert results == ['"one"', '"two"', None]


async def test_a_job_given_twice_in_one_call_is_settled_once(engine: Engine) -> None:
    attempt = await engine.attempt()
    assert await engine.settle([attempt, attempt]) == {}
    assert await engine.states() == {attempt["id"]: "completed"}


async def test_unknown_outcome_raises_instead_of_being_busy(engine: Engine) -> None:
    attempt = await engine.attempt()
    with pytest.raises(asyncpg.InvalidParameterValueError, match="not as"):
        await engine.settle([attempt], states="done")
    assert (await engine.job(attempt["id"]))["state"] == "running"


async def test_a_settle_of_nothing_settles_nothing(engine: Engine) -> None:
    assert await engine.settle([]) == {}


async def test_more_failures_than_attempts_cannot_be_written(engine: Engine) -> None:
    attempt = await engine.attempt(max_attempts=1)
    for outcome in ({"states": "ready"}, {"states": "failed", "reasons": "exhausted"}):
        with pytest.raises(asyncpg.CheckViolationError, match="failures_within_attempts"):
            await engine.settle([attempt], failures=2, **outcome)
    assert (await engine.job(attempt["id"]))["state"] == "running"


@pytest.mark.parametrize("server_default", ["off", "local", "on"])
async def test_a_durable_settle_is_never_below_a_commit_on_disk(
    engine: Engine, server_default: str
) -> None:
    attempt = await engine.attempt()
    async with engine.connection.transaction():
        await engine.connection.execute(f"SET LOCAL synchronous_commit = {server_default}")
        await engine.call(
            "settle_v1",
            ids=[attempt["id"]],
            tokens=[attempt["token"]],
            options=json.dumps({"durable": True}),
        )
        assert await engine.connection.fetchval("SHOW synchronous_commit") == "on"
