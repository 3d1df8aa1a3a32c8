"""What the play of unique jobs, batches and workflows sends to the database, and sees in it."""

import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from tests.db.orchestration_model import Request, Unique

# A call that does not end is a fault. One partition for all of history: the clock may go far, and
# each look into it is quick.
STAGE = """
SET statement_timeout = '30s';
DO $$
DECLARE v_name text;
BEGIN
    FOR v_name IN SELECT inhrelid::regclass::text FROM pg_inherits
                   WHERE inhparent = 'penstock.job_history'::regclass LOOP
        EXECUTE 'DROP TABLE ' || v_name;
    END LOOP;
    CREATE TABLE penstock.job_history_ever PARTITION OF penstock.job_history
       FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
END
$$
"""
EMPTY = """
DELETE FROM penstock.job; DELETE FROM penstock.job_history; DELETE FROM penstock.lease;
DELETE FROM penstock.signal; DELETE FROM penstock.batch; DELETE FROM penstock.batch_delta;
DELETE FROM penstock.workflow; DELETE FROM penstock.dependency; DELETE FROM penstock.unique_claim;
"""
# One look at all of it, for it is taken after each step: four lists of rows.
EVERYTHING = """
SELECT ARRAY(SELECT (id, state, attempt, failures, losses, lease, token, last_token, max_attempts,
                     batch, workflow, unique_key, pending) FROM penstock.job
             UNION ALL
             SELECT (id, state, attempt, failures, losses, NULL::bigint, NULL::uuid, last_token,
                     max_attempts, batch, workflow, unique_key, 0) FROM penstock.job_history),
       ARRAY(SELECT (parent, child, on_failure, satisfied) FROM penstock.dependency),
       ARRAY(SELECT (key, job, keep, until, expires_at) FROM penstock.unique_claim),
       ARRAY(SELECT (b.id, b.total + coalesce(sum(d.total), 0),
                     b.pending + coalesce(sum(d.pending), 0),
                     b.completed + coalesce(sum(d.completed), 0),
                     b.failed + coalesce(sum(d.failed), 0),
                     b.cancelled + coalesce(sum(d.cancelled), 0),
                     count(d.id) > 0, b.closed_at IS NOT NULL, b.finished_at,
                     b.failure_job, b.success_job, b.end_job)
               FROM penstock.batch AS b LEFT JOIN penstock.batch_delta AS d ON d.batch = b.id
              GROUP BY b.id)
"""
IN_ORDER = "UPDATE penstock.job SET ready_at = run_at WHERE state = 'ready'"
ORPHANS = "SELECT batch FROM penstock.batch_delta EXCEPT SELECT id FROM penstock.batch"
NEW_BATCH = """
INSERT INTO penstock.batch (callbacks, created_at) VALUES ($1::jsonb, $2) RETURNING id
"""
NEW_WORKFLOW = "INSERT INTO penstock.workflow (created_at) VALUES ($1) RETURNING id"


class JobRow(NamedTuple):
    id: int
    state: str
    attempt: int
    failures: int
    losses: int
    lease: int | None
    token: UUID | None
    last_token: UUID | None
    max_attempts: int
    batch: int | None
    workflow: int | None
    key: str | None
    pending: int


class EdgeRow(NamedTuple):
    parent: int
    child: int
    on_failure: str
    satisfied: bool


class KeyRow(NamedTuple):
    key: str
    job: int
    keep: float | None
    until: datetime | None
    expires_at: datetime | None


class BatchRow(NamedTuple):
    """With the deltas that are not folded yet."""

    id: int
    total: int
    pending: int
    completed: int
    failed: int
    cancelled: int
    has_deltas: bool
    is_closed: bool
    finished_at: datetime | None
    failure_job: int | None
    success_job: int | None
    end_job: int | None

    def callbacks(self) -> dict[str, int]:
        jobs = {"failure": self.failure_job, "success": self.success_job, "end": self.end_job}
        return {moment: job for moment, job in jobs.items() if job is not None}


class Look(NamedTuple):
    """All that there is."""

    jobs: list[JobRow]
    edges: list[EdgeRow]
    keys: list[KeyRow]
    batches: list[BatchRow]


def columns(
    requests: list[Request], batch: int | None, workflow: int | None, now: Any
) -> dict[str, Any]:
    """The arguments of the function that enqueues."""
    given: dict[str, Any] = {
        "tasks": ["work"] * len(requests),
        "args": ["{}"] * len(requests),
        "delays": [each.delay for each in requests],
        "max_attempts": [each.max_attempts for each in requests],
        "deadlines": [
            each.deadline and now + timedelta(seconds=each.deadline) for each in requests
        ],
        "batch": batch,
        "workflow": workflow,
    }
    if any(each.unique for each in requests):
        given["uniques"] = [each.unique and rule_of(each.unique) for each in requests]
    if workflow is not None:
        given["parents"] = [
            json.dumps([*listed(each.steps, "at"), *listed(each.parents, "job")])
            for each in requests
        ]
        given["children"] = [json.dumps(listed(each.children, "job")) for each in requests]
    return given


def listed(edges: tuple[tuple[int, str], ...], by: str) -> list[dict[str, Any]]:
    return [{by: id, "on_failure": policy} for id, policy in edges]


def rule_of(unique: Unique) -> str:
    given = {
        "key": unique.key,
        "on_conflict": unique.on_conflict,
        "hold": unique.hold,
        "keep": unique.keep,
        "period": unique.period,
    }
    return json.dumps({name: value for name, value in given.items() if value is not None})
