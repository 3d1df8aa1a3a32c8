"""Run the statements for jobs and for leases. Other subjects have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from penstock import sql
from penstock.job import COMPLETED, FINAL, Job
from penstock.store import enqueue, settle
from penstock.store.claim import ClaimedJob, LaneCursor
from penstock.store.connection import Executor, Own
from penstock.store.rows import job_from
from penstock.store.rules import Rules, read_rules
from penstock.store.settle import Answer, Settlement
from penstock.store.statement import Statement

_ASYNC_COMMIT = '{"commit": "async"}'
_DURABLE = '{"durable": true}'


class Store:
    """Run the queue's statements for one schema on the connection of the caller."""

    def __init__(self, schema: str = "penstock") -> None:
        self.schema = schema

    def statement(self, name: str) -> str:
        """Return the text of a statement, with the name of this schema filled in."""
        return sql.statement(name, self.schema)

    def call(self, name: str) -> str:
        """Return the statement that calls a function, with the name of this schema filled in."""
        return sql.call(name, self.schema)

    def channel(self, name: str) -> str:
        """Return the name of this schema's NOTIFY channel for a kind of message."""
        return f"{self.schema}.{name}"

    # Enqueue

    def enqueue_statement(
        self,
        requests: Sequence[enqueue.AnyRequest],
        *,
        notify: bool,
        durable: bool,
        links: enqueue.JobLinks = enqueue.NO_LINKS,
    ) -> Statement:
        """Return the statement that `enqueue` executes to insert jobs."""
        adder = "" if links.adder is None else f', "adder": {links.adder}'
        options = f'{{"notify": {str(notify).lower()}, "durable": {str(durable).lower()}{adder}}}'
        return Statement(self.statement("enqueue"), enqueue.parameters(requests, options, links))

    async def enqueue(
        self,
        on: Executor,
        requests: Sequence[enqueue.AnyRequest],
        *,
        notify: bool,
        durable: bool,
        links: enqueue.JobLinks = enqueue.NO_LINKS,
    ) -> enqueue.Stored:
        """Insert jobs. The results are in the order of the requests."""
        sql, params = self.enqueue_statement(requests, notify=notify, durable=durable, links=links)
        row = await on.fetchrow(sql, *params)
        assert row is not None
        return enqueue.Stored(row["ids"], row["duplicates"], row["lanes"], row["priorities"])

    async def notify_ready(
        self, on: Executor, ready: Sequence[tuple[str, str | None, int]], age: float
    ) -> None:
        """Notify workers of queues, lanes and priorities that got jobs in the last `age` seconds.

        A lane of None stands for many lanes.
        """
        queues, lanes, priorities = zip(*ready, strict=True)
        await on.fetch(
            self.statement("notify_ready"), list(queues), list(lanes), list(priorities), age
        )

    async def notify_due(self, on: Executor, seconds: float) -> None:
        """Notify the worker that promotes scheduled jobs that a job is due in some seconds."""
        await on.fetch(self.statement("notify_due"), seconds)

    # Claim, run and settle

    async def scan_lanes(
        self, on: Executor, queue: str, start: str, limit: int
    ) -> list[LaneCursor]:
        """Return the first ready job of each lane and priority of a queue, as cursors.

        Begin with the lane `start`, and return at most `limit` cursors.
        """
        rows = await on.fetch(self.statement("scan_lanes"), queue, start, limit)
        return [
            LaneCursor(row["lane"], row["priority"], row["ready_at"], row["id"]) for row in rows
        ]

    async def claim(
        self,
        on: Own,
        lease: int,
        queue: str,
        cursors: Sequence[LaneCursor],
        takes: Sequence[int] | None,
        limit: int,
    ) -> list[ClaimedJob]:
        """Claim up to `limit` jobs, beginning at the cursors.

        `takes` limits how many jobs are claimed from each cursor. None sets no limit of that kind.
        The jobs are returned in the order of the cursors.
        """
        lanes, priorities, ready_ats, ids = zip(*cursors, strict=True)
        rows = await on.fetch(
            self.call("claim"),
            lease,
            queue,
            list(lanes),
            list(priorities),
            list(ready_ats),
            list(ids),
            takes,
            limit,
            _ASYNC_COMMIT,
        )
        # Postgres returns the rows in the order of their ids, not of the times they were ready.
        rows.sort(key=itemgetter("ready_at"))
        if len(cursors) > 1:
            order = {(cursor.lane, cursor.priority): at for at, cursor in enumerate(cursors)}
            rows.sort(key=lambda row: order[row["lane"], row["priority"]])
        return [ClaimedJob(row, queue) for row in rows]

    async def mark_started(
        self, on: Executor, jobs: Sequence[ClaimedJob]
    ) -> tuple[set[UUID], set[UUID]]:
        """Record that suspect jobs are about to start.

        Return two sets of tokens: those of jobs that may start, and those of jobs whose rows are
        locked. The caller has to try the latter again. All other jobs no longer belong to this
        worker.
        """
        ids, tokens = [job.id for job in jobs], [job.token for job in jobs]
        rows = await on.fetch(self.call("mark_started"), ids, tokens)
        started = {row["token"] for row in rows if row["marked"]}
        return started, {row["token"] for row in rows} - started

    async def move_to_lanes(self, on: Executor, moves: Sequence[tuple[int, UUID, str]]) -> int:
        """Give claimed jobs back to their queue, each in another lane. Return how many were moved.

        Jobs that no longer belong to this worker are not moved.
        """
        ids, tokens, lanes = zip(*moves, strict=True)
        return int(await on.fetchval(self.call("move_to_lanes"), ids, tokens, lanes))

    async def rules(self, on: Executor, queues: Sequence[str]) -> Rules:
        return read_rules(await on.fetchval(self.statement("read_rules"), list(queues)))

    async def rules_version(self, on: Executor) -> int:
        return int(await on.fetchval(self.call("read_rules_version")))

    async def try_outcome(self, on: Executor, settlement: Settlement) -> None:
        """Raise the error of Postgres if no table at all could store this outcome."""
        await on.fetch(self.statement("try_outcome"), *settle.outcome_parameters(settlement))

    async def settle(
        self, on: Executor, settlements: Sequence[Settlement]
    ) -> list[tuple[int, UUID, Answer]]:
        """Write outcomes. Return the id and token of each that was not written, with the reason."""
        rows = await on.fetch(self.call("settle"), *settle.parameters(settlements, _DURABLE))
        return [(row["id"], row["token"], row["answer"]) for row in rows]

    async def mark_outcomes_lost(
        self, on: Executor, settlements: Sequence[Settlement], why: str
    ) -> list[int]:
        """Count a loss for each job whose outcome cannot be written, and retry or fail the job.

        Return the ids of these jobs. Jobs that no longer belong to this worker are left out.
        """
        ids = [settlement.id for settlement in settlements]
        tokens = [settlement.token for settlement in settlements]
        rows = await on.fetch(self.call("mark_outcome_lost"), ids, tokens, why)
        return [row["id"] for row in rows]

    async def find_completed(self, on: Executor, settlements: Sequence[Settlement]) -> set[int]:
        """Return the ids of the jobs that the same attempts have already completed."""
        ids = [settlement.id for settlement in settlements]
        tokens = [settlement.token for settlement in settlements]
        return {row["job"] for row in await on.fetch(self.statement("find_completed"), ids, tokens)}

    async def fence(self, on: Executor, job: int, token: UUID) -> None:
        await on.fetch(self.call("fence"), job, token)

    async def complete(self, on: Executor, job: int, token: UUID, result: str | None) -> bool:
        """Fence a job and complete it in one statement. Return whether that succeeded."""
        return not await on.fetch(self.statement("complete_job"), job, token, result)

    async def progress(
        self, on: Executor, reports: Sequence[tuple[int, UUID, float, float | None, str | None]]
    ) -> list[int]:
        """Save the progress that attempts report.

        Return the ids of the jobs that no longer belong to these attempts.
        """
        columns = [list(column) for column in zip(*reports, strict=True)]
        rows = await on.fetch(self.statement("save_progress"), *columns)
        return [row["job"] for row in rows]

    # Leases

    async def open_lease(
        self, on: Executor, worker: str, seconds: float, info: dict[str, Any]
    ) -> int:
        lease = await on.fetchval(self.statement("open_lease"), worker, seconds, _json(info))
        return int(lease)

    async def heartbeat(
        self, on: Executor, lease: int, seconds: float, info: dict[str, Any] | None = None
    ) -> tuple[bool, list[tuple[int, UUID, str]]]:
        """Renew a lease. Return whether it is still valid, and the signals for its worker."""
        row = await on.fetchrow(
            self.call("heartbeat"), lease, seconds, None if info is None else _json(info)
        )
        assert row is not None
        signals = msgspec.json.decode(row["signals"], type=list[tuple[int, UUID, str]])
        return row["alive"], signals

    async def release(self, on: Executor, lease: int, keep: Sequence[int]) -> int:
        return int(await on.fetchval(self.call("release_jobs"), lease, list(keep)))

    async def close_lease(self, on: Executor, lease: int) -> int:
        return int(await on.fetchval(self.call("close_lease"), lease))

    # Maintenance

    async def elect(self, on: Executor, role: str, lease: int, seconds: float) -> bool:
        return bool(await on.fetchval(self.call("elect"), role, lease, seconds))

    async def promote(
        self, on: Executor, after: datetime | None, limit: int
    ) -> tuple[int, datetime, float | None]:
        """Make due scheduled jobs ready.

        Return how many became ready, the time from which to continue, and the seconds until the
        next job is due, or None if there is none.
        """
        row = await on.fetchrow(self.call("promote"), after or _EPOCH, limit)
        assert row is not None
        return row["promoted"], row["upto"], row["next_in"]

    async def rescue(self, on: Executor, limit: int) -> list[tuple[int, bool | None]]:
        """Take jobs from lost workers.

        Return the id of each job, and whether it failed for good. That is None if the history has
        no partition for the job.
        """
        rows = await on.fetch(self.call("rescue"), limit)
        return [(row["id"], row["lost"]) for row in rows]

    async def rescue_overtime(
        self, on: Executor, grace: float, limit: int
    ) -> list[tuple[int, bool | None]]:
        rows = await on.fetch(self.call("rescue_overtime"), grace, limit)
        return [(row["id"], row["lost"]) for row in rows]

    async def expire(self, on: Executor, limit: int) -> int:
        return int(await on.fetchval(self.call("expire"), limit))

    async def sweep(self, on: Executor, limit: int) -> dict[str, int]:
        row = await on.fetchrow(self.call("sweep"), limit)
        assert row is not None
        return dict(row)

    async def unserved_queues(self, on: Executor, seconds: float) -> list[tuple[str, float]]:
        """Return the queues without a worker whose oldest ready job has waited at least `seconds`.

        For each queue, return also how many seconds that job has waited.
        """
        rows = await on.fetch(self.statement("list_unserved_queues"), seconds)
        return [(row["queue"], row["seconds"]) for row in rows]

    async def ensure_partitions(self, on: Executor, ahead: int) -> int:
        return int(await on.fetchval(self.statement("ensure_partitions"), ahead))

    async def expired_partitions(self, on: Own) -> list[tuple[str, ...]]:
        """Return the statements that are still needed to remove each expired partition."""
        rows = await on.fetch(self.statement("list_expired_partitions"), self.schema, None)
        return [_removal_statements(row) for row in rows]

    # Read and change jobs

    async def get(self, on: Executor, ids: Sequence[int]) -> list[Job]:
        rows = await on.fetch(self.statement("get_jobs"), list(ids))
        return [job_from(row) for row in rows]

    async def states(self, on: Executor, ids: Sequence[int]) -> list[dict[str, Any]]:
        return [dict(row) for row in await on.fetch(self.statement("get_states"), list(ids))]

    async def list_jobs(
        self,
        on: Executor,
        *filters: Any,
        batch: int | None = None,
        workflow: int | None = None,
    ) -> list[Job]:
        if workflow is not None:
            rows = await on.fetch(self.statement("list_jobs_of_workflow"), *filters, workflow)
        elif batch is not None:
            rows = await on.fetch(self.statement("list_jobs_of_batch"), *filters, batch)
        else:
            rows = await on.fetch(self.statement("list_jobs"), *filters)
        return [job_from(row) for row in rows]

    async def find_text(
        self, on: Executor, filters: Sequence[Any], max_scanned: int, text: str
    ) -> tuple[list[int], int | None]:
        """Scan the next `max_scanned` jobs for a text in their arguments.

        Return the ids of the jobs that contain the text, and the last job that was scanned, or None
        if no jobs are left to scan.
        """
        row = await on.fetchrow(self.statement("find_jobs_by_text"), *filters, max_scanned, text)
        assert row is not None
        return list(row["ids"]), row["last"] if row["seen"] == max_scanned else None

    # Changes are written to the audit if `by` names the person who made them.

    async def cancel(
        self, on: Executor, ids: Sequence[int], reason: str, *, by: str | None = None
    ) -> dict[int, str]:
        rows = await on.fetch(self.statement("cancel_jobs"), list(ids), reason, by)
        return {row["id"]: row["answer"] for row in rows}

    async def retry(
        self, on: Executor, ids: Sequence[int], *, completed: bool = True, by: str | None = None
    ) -> dict[int, str]:
        states = [state for state in sorted(FINAL) if completed or state != COMPLETED]
        rows = await on.fetch(self.statement("retry_jobs"), list(ids), by, states)
        return {row["id"]: row["answer"] for row in rows}

    async def delete(
        self, on: Executor, ids: Sequence[int], *, by: str | None = None
    ) -> dict[int, str]:
        rows = await on.fetch(self.statement("delete_jobs"), list(ids), by)
        return {row["id"]: row["answer"] for row in rows}

    async def pause(self, on: Executor, queue: str, *, by: str | None = None) -> None:
        await on.fetch(self.statement("pause_queue"), queue, by)

    async def resume(self, on: Executor, queue: str, *, by: str | None = None) -> None:
        await on.fetch(self.statement("resume_queue"), queue, by)

    async def paused(self, on: Executor) -> list[str]:
        return [row["name"] for row in await on.fetch(self.statement("list_paused_queues"))]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _removal_statements(row: asyncpg.Record) -> tuple[str, ...]:
    if row["pending"]:
        return row["finalize"], row["drop"]
    return (row["detach"], row["drop"]) if row["attached"] else (row["drop"],)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
