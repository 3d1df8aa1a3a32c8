"""Every statement of the queue as a method. Holds no state but where to send it."""

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
    """The queue's statements in one schema, on whatever connection the caller has."""

    def __init__(self, schema: str = "penstock") -> None:
        self.schema = schema

    def statement(self, name: str) -> str:
        """The text of one statement, bound to this schema."""
        return sql.statement(name, self.schema)

    def call(self, name: str) -> str:
        """The text of the statement that calls a function, bound to this schema."""
        return sql.call(name, self.schema)

    def channel(self, name: str) -> str:
        """The NOTIFY channel of this schema for a kind of news."""
        return f"{self.schema}.{name}"

    # A job's way in

    def enqueue_statement(
        self,
        requests: Sequence[enqueue.AnyRequest],
        *,
        notify: bool,
        durable: bool,
        links: enqueue.Links = enqueue.NO_LINKS,
    ) -> Statement:
        """The statement that inserts jobs; see `enqueue` for what it answers."""
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
        links: enqueue.Links = enqueue.NO_LINKS,
    ) -> enqueue.Stored:
        """Insert jobs; what came of them, in order."""
        sql, params = self.enqueue_statement(requests, notify=notify, durable=durable, links=links)
        row = await on.fetchrow(sql, *params)
        assert row is not None
        return enqueue.Stored(row["ids"], row["duplicates"], row["lanes"], row["priorities"])

    async def notify_ready(
        self, on: Executor, lines: Sequence[tuple[str, str | None, int]], age: float
    ) -> None:
        """Wake workers for lines that got jobs at most `age` seconds ago; no lane means many."""
        queues, lanes, priorities = zip(*lines, strict=True)
        await on.fetch(
            self.statement("notify_ready"), list(queues), list(lanes), list(priorities), age
        )

    async def notify_due(self, on: Executor, seconds: float) -> None:
        """Tell the promoter that a job is due in some seconds."""
        await on.fetch(self.statement("notify_due"), seconds)

    # A job's way through a worker

    async def scan_lanes(
        self, on: Executor, queue: str, start: str, limit: int
    ) -> list[LaneCursor]:
        """The lines of a queue that have ready jobs, from one lane on."""
        rows = await on.fetch(self.statement("scan_lanes"), queue, start, limit)
        return [
            LaneCursor(row["lane"], row["priority"], row["ready_at"], row["id"]) for row in rows
        ]

    async def claim(
        self,
        on: Own,
        lease: int,
        queue: str,
        lines: Sequence[LaneCursor],
        takes: Sequence[int] | None,
        limit: int,
    ) -> list[ClaimedJob]:
        """Claim up to `limit` jobs, of each line what it may take; in the order of the lines."""
        lanes, priorities, marks, ids = zip(*lines, strict=True)
        rows = await on.fetch(
            self.call("claim"),
            lease,
            queue,
            list(lanes),
            list(priorities),
            list(marks),
            list(ids),
            takes,
            limit,
            _ASYNC_COMMIT,
        )
        # Postgres updates in the order of ids; the line's order is another.
        rows.sort(key=itemgetter("ready_at"))
        if len(lines) > 1:
            turn = {(line.lane, line.priority): index for index, line in enumerate(lines)}
            rows.sort(key=lambda row: turn[row["lane"], row["priority"]])
        return [ClaimedJob(row, queue) for row in rows]

    async def mark_started(
        self, on: Executor, jobs: Sequence[ClaimedJob]
    ) -> tuple[set[UUID], set[UUID]]:
        """Mark attempts of suspects as begun: the tokens of those that may begin, and of those to
        ask for again, whose rows somebody holds. The others have lost their jobs."""
        ids, tokens = [one.id for one in jobs], [one.token for one in jobs]
        rows = await on.fetch(self.call("mark_started"), ids, tokens)
        marked = {row["token"] for row in rows if row["marked"]}
        return marked, {row["token"] for row in rows} - marked

    async def move_to_lanes(self, on: Executor, moves: Sequence[tuple[int, UUID, str]]) -> int:
        """Put claimed jobs back into other lanes; how many were still theirs who asked."""
        ids, tokens, lanes = zip(*moves, strict=True)
        return int(await on.fetchval(self.call("move_to_lanes"), ids, tokens, lanes))

    async def rules(self, on: Executor, queues: Sequence[str]) -> Rules:
        return read_rules(await on.fetchval(self.statement("read_rules"), list(queues)))

    async def rules_version(self, on: Executor) -> int:
        return int(await on.fetchval(self.call("read_rules_version")))

    async def try_outcome(self, on: Executor, settlement: Settlement) -> None:
        """Raise the error that keeps Postgres from storing an outcome in any table."""
        await on.fetch(self.statement("try_outcome"), *settle.outcome(settlement))

    async def settle(
        self, on: Executor, settlements: Sequence[Settlement]
    ) -> list[tuple[int, UUID, Answer]]:
        """Write outcomes; what was not settled comes back with the reason."""
        rows = await on.fetch(self.call("settle"), *settle.parameters(settlements, _DURABLE))
        return [(row["id"], row["token"], row["answer"]) for row in rows]

    async def mark_outcomes_lost(
        self, on: Executor, settlements: Sequence[Settlement], why: str
    ) -> list[int]:
        """Take back jobs that ran and whose outcomes cannot be written; which of them it were."""
        ids, tokens = [one.id for one in settlements], [one.token for one in settlements]
        rows = await on.fetch(self.call("mark_outcome_lost"), ids, tokens, why)
        return [row["id"] for row in rows]

    async def find_completed(self, on: Executor, settlements: Sequence[Settlement]) -> set[int]:
        """Those of the jobs that these very attempts have completed already."""
        ids, tokens = [one.id for one in settlements], [one.token for one in settlements]
        return {row["job"] for row in await on.fetch(self.statement("find_completed"), ids, tokens)}

    async def fence(self, on: Executor, job: int, token: UUID) -> None:
        await on.fetch(self.call("fence"), job, token)

    async def complete(self, on: Executor, job: int, token: UUID, result: str | None) -> bool:
        """Fence a job and complete it, in one question; whether it is settled."""
        return not await on.fetch(self.statement("complete_job"), job, token, result)

    async def progress(
        self, on: Executor, reports: Sequence[tuple[int, UUID, float, float | None, str | None]]
    ) -> list[int]:
        """Record how far attempts are; the jobs that are no longer theirs come back."""
        columns = [list(column) for column in zip(*reports, strict=True)]
        rows = await on.fetch(self.statement("save_progress"), *columns)
        return [row["job"] for row in rows]

    # A worker's right to its jobs

    async def open_lease(
        self, on: Executor, worker: str, seconds: float, info: dict[str, Any]
    ) -> int:
        lease = await on.fetchval(self.statement("open_lease"), worker, seconds, _json(info))
        return int(lease)

    async def heartbeat(
        self, on: Executor, lease: int, seconds: float, info: dict[str, Any] | None = None
    ) -> tuple[bool, list[tuple[int, UUID, str]]]:
        """Renew a lease: whether it lives, and what its worker must be told."""
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
        self, on: Executor, mark: datetime | None, limit: int
    ) -> tuple[int, datetime, float | None]:
        """Make due jobs ready: how many, where to go on, in how many seconds the next is due."""
        row = await on.fetchrow(self.call("promote"), mark or _BEGINNING, limit)
        assert row is not None
        return row["promoted"], row["upto"], row["next_in"]

    async def rescue(self, on: Executor, limit: int) -> list[tuple[int, bool | None]]:
        """The jobs, and whether they failed for good; None if the history lacks a partition."""
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
        """The queues without a worker whose jobs have been ready for so long, the oldest first."""
        rows = await on.fetch(self.statement("list_unserved_queues"), seconds)
        return [(row["queue"], row["seconds"]) for row in rows]

    async def ensure_partitions(self, on: Executor, ahead: int) -> int:
        return int(await on.fetchval(self.statement("ensure_partitions"), ahead))

    async def expired_partitions(self, on: Own) -> list[tuple[str, ...]]:
        """For each partition whose day has passed, the statements that are left to take it away."""
        rows = await on.fetch(self.statement("list_expired_partitions"), self.schema, None)
        return [_steps_to_remove(row) for row in rows]

    # What people ask and change

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
        self, on: Executor, filters: Sequence[Any], look: int, text: str
    ) -> tuple[list[int], int | None]:
        """Of the next jobs, so many at most, those whose arguments hold a text; and the last that
        was looked at, None if that was all."""
        row = await on.fetchrow(self.statement("find_jobs_by_text"), *filters, look, text)
        assert row is not None
        return list(row["ids"]), row["last"] if row["seen"] == look else None

    # Whoever is named by `by` is noted in the audit; what a program does unnamed is no news.

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


_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def _steps_to_remove(row: asyncpg.Record) -> tuple[str, ...]:
    if row["pending"]:
        return row["finalize"], row["drop"]
    return (row["detach"], row["drop"]) if row["attached"] else (row["drop"],)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
