"""What people do to jobs: cancel, run again, delete."""

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.engine import NOON, Engine
from tests.fixtures.until import until


@pytest.mark.parametrize("state", ["ready", "scheduled", "running"])
async def test_a_live_job_is_cancelled_at_once(engine: Engine, state: str) -> None:
    engine.now = NOON
    [id] = await engine.enqueue(delays=60.0 if state == "scheduled" else 0.0)
    if state == "running":
        await engine.claim(await engine.lease())
    assert await engine.answers("cancel_v1", id, reason="not wanted", now=NOON) == {id: "cancelled"}
    job = await engine.job(id)
    assert (job["state"], job["reason"], job["finished_at"]) == ("cancelled", "not wanted", NOON)
    assert await engine.live(id) is None


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
async def test_a_job_that_has_ended_answers_how(engine: Engine, state: str) -> None:
    attempt = await engine.attempt()
    await engine.settle([attempt], states=state, reasons="some")
    assert await engine.answers("cancel_v1", attempt["id"]) == {attempt["id"]: state}
    assert (await engine.job(attempt["id"]))["reason"] == "some"


async def test_each_job_of_a_cancel_has_its_answer_in_the_order_asked(engine: Engine) -> None:
    done = await engine.attempt()
    await engine.settle([done])
    [waiting] = await engine.enqueue()
    rows = await engine.call("cancel_v1", ids=[404, waiting, done["id"], waiting])
    assert [(row["id"], row["answer"]) for row in rows] == [
        (404, "missing"),
        (waiting, "cancelled"),
        (done["id"], "completed"),
        (waiting, "cancelled"),
    ]
    assert await engine.answers("cancel_v1") == {}


async def test_cancel_signals_the_worker_of_a_running_job_only(engine: Engine) -> None:
    attempt = await engine.attempt()
    [waiting] = await engine.enqueue()
    await engine.answers("cancel_v1", attempt["id"], waiting)
    rows = await engine.connection.fetch("SELECT job, token, kind FROM penstock.signal")
    assert [tuple(row) for row in rows] == [(attempt["id"], attempt["token"], "cancelled")]


async def test_cancel_waits_for_an_open_settle_and_returns_its_state(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    async with asyncio.TaskGroup() as group, other.connection.transaction():
        await other.settle([attempt])
        cancelling = group.create_task(engine.answers("cancel_v1", attempt["id"]))
        await until(other.keeps_waiting, what="the cancel to wait")
    assert cancelling.result() == {attempt["id"]: "completed"}
    assert await engine.connection.fetchval("SELECT count(*) FROM penstock.signal") == 0


async def test_cancel_waits_for_an_open_retry_outcome_then_cancels(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    async with asyncio.TaskGroup() as group, other.connection.transaction():
        await other.settle([attempt], states="ready")
        cancelling = group.create_task(engine.answers("cancel_v1", attempt["id"]))
        await until(other.keeps_waiting, what="the cancel to wait")
    assert cancelling.result() == {attempt["id"]: "cancelled"}
    assert (await engine.job(attempt["id"]))["state"] == "cancelled"


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
async def test_a_final_job_runs_again_under_its_id_with_fresh_chances(
    engine: Engine, state: str
) -> None:
    engine.now = NOON
    lease = await engine.lease()
    attempt = await engine.attempt(lease, subjects="document:1", metas='{"trace": 1}', priorities=3)
    await engine.settle(
        [attempt], states=state, reasons="some", failures=1, errors='{"type": "Broken"}'
    )
    later = NOON + timedelta(seconds=30)
    assert await engine.answers("retry_v1", attempt["id"], now=later) == {attempt["id"]: "ready"}
    row = await engine.live(attempt["id"])
    assert row is not None
    assert (row["attempt"], row["failures"], row["losses"]) == (1, 0, 0)
    assert (row["created_at"], row["run_at"], row["ready_at"]) == (NOON, later, later)
    assert (row["subject"], row["meta"], row["priority"]) == ("document:1", '{"trace": 1}', 3)
    assert [error["type"] for error in json.loads(row["errors"])] == ["Broken"]
    assert await engine.connection.fetchval("SELECT count(*) FROM penstock.job_history") == 0
    [again] = await engine.claim(lease, lines=[("", 3)])
    assert (again["id"], again["attempt"]) == (attempt["id"], 2)


async def test_a_retry_removes_the_progress_of_what_comes_back(engine: Engine) -> None:
    lease, unique = await engine.lease(), '{"key": "k"}'
    free = await engine.attempt(lease)
    held = await engine.attempt(lease, uniques=unique)
    done = await engine.call(
        "save_progress_v1",
        ids=[free["id"], held["id"]],
        tokens=[free["token"], held["token"]],
        done=[3.0] * 2,
        totals=[10.0] * 2,
        messages=[None] * 2,
    )
    assert done == []
    await engine.settle([free, held])
    await engine.enqueue(uniques=unique)
    answers = await engine.answers("retry_v1", free["id"], held["id"])
    assert answers == {free["id"]: "ready", held["id"]: "held"}
    left = await engine.connection.fetch("SELECT job FROM penstock.progress")
    assert [row["job"] for row in left] == [held["id"]]


async def test_a_retry_leaves_those_that_ended_otherwise_as_they_are(engine: Engine) -> None:
    lease = await engine.lease()
    done, failed = await engine.attempt(lease), await engine.attempt(lease)
    await engine.settle([done])
    await engine.settle([failed], states="failed", reasons="exhausted")
    rows = await engine.call(
        "retry_v1", ids=[done["id"], failed["id"]], states=["failed", "cancelled"]
    )
    assert [row["answer"] for row in rows] == ["completed", "ready"]
    assert (await engine.job(done["id"]))["state"] == "completed"
    assert await engine.live(done["id"]) is None


async def test_an_attempt_without_an_error_stays_known_after_a_retry(engine: Engine) -> None:
    engine.now = NOON
    attempt = await engine.attempt()
    engine.now = later = NOON + timedelta(seconds=30)
    await engine.settle([attempt])
    await engine.answers("retry_v1", attempt["id"], now=later)
    row = await engine.live(attempt["id"])
    assert row is not None
    [end] = json.loads(row["errors"])
    assert (end["kind"], end["type"], end["attempt"]) == ("rerun", "completed", 1)
    assert datetime.fromisoformat(end["began"]) == NOON
    assert datetime.fromisoformat(end["at"]) == later


async def test_repeated_settle_succeeds_after_the_job_was_retried(engine: Engine) -> None:
    attempt = await engine.attempt()
    await engine.settle([attempt])
    await engine.answers("retry_v1", attempt["id"])
    assert await engine.settle([attempt]) == {}
    assert (await engine.job(attempt["id"]))["state"] == "ready"


async def test_retry_does_not_revive_the_attempt_of_a_cancelled_job(engine: Engine) -> None:
    attempt = await engine.attempt()
    await engine.answers("cancel_v1", attempt["id"])
    await engine.answers("retry_v1", attempt["id"])
    assert await engine.settle([attempt]) == {attempt["id"]: "refused"}
    assert (await engine.job(attempt["id"]))["state"] == "ready"


async def test_a_scheduled_job_is_due_now(engine: Engine) -> None:
    engine.now = NOON
    [id] = await engine.enqueue(delays=600.0)
    assert await engine.answers("retry_v1", id, now=NOON) == {id: "ready"}
    row = await engine.live(id)
    assert row is not None
    assert (row["state"], row["run_at"], row["ready_at"]) == ("ready", NOON, NOON)


async def test_a_running_job_and_a_missing_one_are_left_as_they_are(engine: Engine) -> None:
    attempt = await engine.attempt()
    answers = await engine.answers("retry_v1", attempt["id"], 404)
    assert answers == {attempt["id"]: "running", 404: "missing"}
    assert await engine.settle([attempt]) == {}


async def test_a_deadline_that_has_passed_does_not_end_the_new_run(engine: Engine) -> None:
    engine.now = NOON
    [past] = await engine.enqueue(deadlines=NOON + timedelta(seconds=1))
    [ahead] = await engine.enqueue(deadlines=NOON + timedelta(seconds=100))
    await engine.answers("cancel_v1", past, ahead, now=NOON)
    now = NOON + timedelta(seconds=50)
    await engine.answers("retry_v1", past, ahead, now=now)
    deadlines = [(await engine.job(id))["deadline"] for id in (past, ahead)]
    assert deadlines == [None, NOON + timedelta(seconds=100)]


async def test_retry_is_held_while_another_job_has_the_unique_key(engine: Engine) -> None:
    attempt = await engine.attempt()
    await engine.connection.execute("UPDATE penstock.job SET unique_key = 'one'")
    await engine.settle([attempt], states="failed", reasons="some")
    await engine.connection.execute(
        "INSERT INTO penstock.unique_claim (kind, tenant, key, job)"
        " VALUES ('unique', '', 'one', 99)"
    )
    assert await engine.answers("retry_v1", attempt["id"]) == {attempt["id"]: "held"}
    assert (await engine.job(attempt["id"]))["state"] == "failed"
    await engine.connection.execute("DELETE FROM penstock.unique_claim")
    assert await engine.answers("retry_v1", attempt["id"]) == {attempt["id"]: "ready"}


async def test_two_retries_at_the_same_time_bring_the_job_back_once(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    await engine.settle([attempt])
    async with asyncio.TaskGroup() as group, other.connection.transaction():
        assert await other.answers("retry_v1", attempt["id"]) == {attempt["id"]: "ready"}
        second = group.create_task(engine.answers("retry_v1", attempt["id"]))
        await until(other.keeps_waiting, what="the second to wait")
    assert second.result() == {attempt["id"]: "ready"}
    assert await engine.states() == {attempt["id"]: "ready"}


@pytest.mark.parametrize("outcome", [None, {"states": "scheduled", "delays": 9.0}, {}])
async def test_delete_removes_a_job_with_its_steps_and_progress(
    engine: Engine, outcome: dict[str, Any] | None
) -> None:
    lease = await engine.lease()
    attempt = await engine.attempt(lease)
    await engine.call(
        "save_progress_v1",
        ids=[attempt["id"]],
        tokens=[attempt["token"]],
        done=[1.0],
        totals=[2.0],
        messages=[None],
    )
    await engine.connection.execute(
        "INSERT INTO penstock.step (job, name) VALUES ($1, 'extract')", attempt["id"]
    )
    assert await engine.answers("delete_v1", attempt["id"]) == {attempt["id"]: "running"}
    if outcome is None:
        await engine.value("release_jobs_v1", lease=lease)
    else:
        await engine.settle([attempt], **outcome)
    assert await engine.answers("delete_v1", attempt["id"], 404) == {
        attempt["id"]: "deleted",
        404: "missing",
    }
    assert await engine.states() == {}
    for table in ("progress", "step"):
        assert await engine.connection.fetchval(f"SELECT count(*) FROM penstock.{table}") == 0


async def test_a_running_job_is_not_deleted(engine: Engine) -> None:
    attempt = await engine.attempt()
    [waiting] = await engine.enqueue()
    assert await engine.answers("delete_v1", attempt["id"], waiting) == {
        attempt["id"]: "running",
        waiting: "deleted",
    }
    assert await engine.states() == {attempt["id"]: "running"}


async def test_a_cancel_needs_a_reason(engine: Engine) -> None:
    [id] = await engine.enqueue()
    with pytest.raises(asyncpg.CheckViolationError, match="reason_given"):
        await engine.answers("cancel_v1", id, reason=None)
