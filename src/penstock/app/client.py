"""Enqueue, look at, wait for and change jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from penstock.connect import scope
from penstock.connect.connector import Connector
from penstock.connect.enqueue import (
    Enqueued,
    JobId,
    JobStatus,
    Page,
    enqueued_from,
    id_of,
    prepared,
    tenant_of,
)
from penstock.connect.scope import TenantScope
from penstock.connect.wait import seconds_of, verdict
from penstock.errors import (
    BadArgument,
    JobConflict,
    JobNotFound,
    Misuse,
    TenantMissing,
    WaitTimeout,
)
from penstock.groups.audit import AuditCalls
from penstock.groups.batches import BatchCalls, BatchId, batch_id_of, batch_key
from penstock.groups.bulk import BulkCalls
from penstock.groups.events import EventCalls
from penstock.groups.failed import FailedCalls
from penstock.groups.keys import KeyCalls
from penstock.groups.schedules import ScheduleCalls
from penstock.groups.settings import RetentionCalls, SettingCalls
from penstock.groups.snapshots import SnapshotCalls
from penstock.groups.users import UserCalls
from penstock.groups.workflows import WorkflowCalls, WorkflowId, workflow_key
from penstock.job import FINAL, Job, State
from penstock.store import Executor, Statement, adapt, key_of
from penstock.store.enqueue import Links, Stored
from penstock.tasks import Request, Task
from penstock.tasks.options import QUEUE_NAME, limit_key, matching

logger = logging.getLogger("penstock")

P = ParamSpec("P")
T = TypeVar("T")

STATES_AT_ONCE = 1000
LONGEST_PAGE = 1000
# So many jobs are looked at for a text in their arguments, in one call.
LOOK = 10_000


class Client(
    KeyCalls,
    UserCalls,
    AuditCalls,
    BatchCalls,
    SettingCalls,
    FailedCalls,
    RetentionCalls,
    ScheduleCalls,
    EventCalls,
    WorkflowCalls,
    BulkCalls,
    SnapshotCalls,
):
    """Everything a caller does with jobs, on the app's pool or inside the caller's transaction."""

    def inside(self, connection: Any, *, notify: bool = True) -> Client:
        """The same calls on your own connection: part of your transaction, or not at all.

            async with connection.transaction():
                await connection.execute("INSERT INTO invoice …")
                await app.inside(connection).enqueue(send_invoice, 42)

        It takes a connection of asyncpg, an async one of psycopg, or SQLAlchemy's AsyncConnection
        or AsyncSession; `app.sync.inside` takes the blocking ones. Workers are woken by your
        commit; `notify=False` leaves it to their polling.
        """
        return self.on(adapt(connection), notify=notify)

    def on(self, executor: Executor, *, notify: bool = True) -> Client:
        """The same calls on a connection as the store asks it."""
        return _Inside(self._link, executor, notify, self._tenant, self._by)

    def for_tenant(self, tenant: str, *, confined: bool = False) -> Client:
        """The same calls as one tenant: its jobs are enqueued, and no other's.

            await app.for_tenant("acme").enqueue(send_invoice, 42)

        Each call is a transaction with `penstock.tenant` set. Under row level security the
        database shows no other tenant's jobs then; see docs/tenants.md. A client that is
        `confined` takes the role of apps for it, so that this holds for the owner's login too.
        """
        return self._as(TenantScope(tenant, confined=confined), self._by)

    def acting(self, by: str) -> Client:
        """The same calls for somebody, whose changes are theirs in the audit.

            await app.acting("ada").cancel(job)

        Changes of single jobs and pauses are noted only when it is known who made them.
        """
        return self._as(self._tenant, limit_key("by", by))

    def _as(self, tenant: TenantScope | None, by: str | None) -> Client:
        return Client(self._link, wake=self._wake, tenant=tenant, by=by)

    def statement(self, *requests: Request[Any], notify: bool = True) -> Statement:
        """What enqueues jobs, as SQL and parameters, for a driver that `inside` does not know.

            sql, params = app.statement(send_invoice.prepare(42))
            row = await connection.fetchrow(sql, *params)       # row["ids"] has the job ids

        The places are `$1, $2, …`; `.pyformat` has them as `%(p1)s`.
        """
        given = prepared(requests)
        if self._tenant is not None:
            given = self._tenant.signed(given)
        if (tracing := self._link.tracing and self._link.tracing.active()) is not None:
            given = list(tracing.carried(given))
        return self.store.enqueueing(given, notify=notify, durable=False)

    # Look

    async def get(self, job: JobId) -> Job:
        """The job as it is now, live or final; JobNotFound if it never was or is long gone."""
        found = await self.find(job)
        if found is None:
            raise JobNotFound(id_of(job))
        return found

    async def find(self, job: JobId) -> Job | None:
        """The job as it is now, or None."""
        try:
            key = key_of(id_of(job))
        except JobNotFound:
            return None
        jobs = await self._ask(lambda on: self.store.get(on, [key]))
        return jobs[0] if jobs else None

    async def states(self, jobs: Sequence[JobId]) -> dict[str, JobStatus]:
        """State and progress of up to 1,000 jobs in one call; those not found are left out."""
        if len(jobs) > STATES_AT_ONCE:
            raise BadArgument("jobs", len(jobs), f"at most {STATES_AT_ONCE} ids in one call")
        keys = []
        for job in jobs:
            with suppress(JobNotFound):
                keys.append(key_of(id_of(job)))
        rows = await self._ask(lambda on: self.store.states(on, keys))
        return {(text := str(row.pop("id"))): JobStatus(id=text, **row) for row in rows}

    async def list(
        self,
        *,
        state: State | Sequence[State] | None = None,
        queue: str | None = None,
        task: str | Task[Any, Any] | None = None,
        tenant: str | None = None,
        subject: str | None = None,
        tag: str | None = None,
        batch: BatchId | None = None,
        workflow: WorkflowId | None = None,
        text: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        """Jobs by filter, newest first. Pass `page.after` as `after` for the next page.

        `text` is one that the arguments hold, in any case. A page of such looks at 10,000 jobs at
        most, so it may be short, or empty, and yet have a next one.
        """
        if not 1 <= limit <= LONGEST_PAGE:
            raise BadArgument("limit", limit, f"1 to {LONGEST_PAGE}")
        if self._tenant is not None:
            tenant = self._tenant.named(tenant)
        states = scope.states(state)
        name = task.name if isinstance(task, Task) else task
        texts = scope.texts(queue=queue, task=name, tenant=tenant, subject=subject, tag=tag)
        start = key_of(after) if after else None
        if batch is not None and workflow is not None:
            raise Misuse("Jobs are listed of a workflow or of a batch, not of both.", "workflow")
        within = {
            "batch": None if batch is None else batch_key(batch_id_of(batch)),
            "workflow": None if workflow is None else workflow_key(workflow),
        }
        if text is not None:
            if within["batch"] is not None or within["workflow"] is not None:
                raise Misuse("Jobs of a batch or a workflow cannot be found by a text.", "text")
            return await self._holding(text, [states, *texts, start], limit)
        jobs = await self._ask(
            lambda on: self.store.list_jobs(on, states, *texts, start, limit, **within)
        )
        return Page(tuple(jobs), jobs[-1].id if len(jobs) == limit else None)

    async def _holding(self, text: str, given: Sequence[Any], limit: int) -> Page:
        [wanted] = scope.texts(text=text)
        assert wanted is not None
        ids, last = await self._ask(lambda on: self.store.find_text(on, given, LOOK, wanted))
        if len(ids) > limit:
            ids, last = ids[:limit], ids[limit - 1]
        jobs = await self._ask(lambda on: self.store.get(on, ids)) if ids else []
        order = {str(key): place for place, key in enumerate(ids)}
        jobs.sort(key=lambda job: order[job.id])
        return Page(tuple(jobs), None if last is None else str(last))

    async def wait(self, job: str | Enqueued[T], timeout: float | timedelta | None = None) -> T:
        """The job's result once it is done; raises JobFailed, JobCancelled or WaitTimeout."""
        seconds = seconds_of(timeout)
        found = await self._until(lambda seen: seen.state in FINAL, lambda: self.get(job), seconds)
        if found.state not in FINAL:
            why = await self._why(lambda: self.why(found.id), f"job {found.id}")
            raise WaitTimeout(found.id, found.state, seconds or 0.0, why)
        return verdict(found)  # type: ignore[return-value]

    # Change

    async def cancel(self, job: JobId, reason: str = "requested") -> bool:
        """End a job now, running or not. False if it had already ended in another way."""
        answer = await self._change("cancel", job, reason)
        return answer == "cancelled"

    async def retry(self, job: JobId) -> None:
        """Run a job again: a final one comes back under its id, a waiting one is due now.

        A completed one does its work again; its progress and result are gone then. In a workflow
        it comes back blocked while jobs that it waits for live.
        """
        answer = await self._change("retry", job)
        if answer == "held":
            raise JobConflict(id_of(job), answer, "retried", await self._held(id_of(job)))
        if answer not in ("ready", "blocked"):
            raise JobConflict(id_of(job), answer, "retried")

    async def _held(self, job: str) -> str:
        """Who holds a job's unique key, and what to do about it."""
        found = await self.unique_holders([job])
        if job not in found:
            return "Its unique key was another job's a moment ago; try again."
        return f"Its unique key belongs to job {found[job]}: wait for that one, or cancel it."

    async def delete(self, job: JobId) -> None:
        """Erase a job that does not run, with all that is kept about it."""
        answer = await self._change("delete", job)
        if answer != "deleted":
            raise JobConflict(id_of(job), answer, "deleted", "Cancel it first.")

    async def _change(self, verb: str, job: JobId, *args: Any) -> str:
        key = key_of(id_of(job))
        answers: dict[int, str] = await self._ask(
            lambda on: getattr(self.store, verb)(on, [key], *args, by=self._by), again=False
        )
        if answers[key] == "missing":
            raise JobNotFound(id_of(job))
        return answers[key]

    async def pause(self, queue: str) -> None:
        """Let no worker claim from a queue; what runs goes on."""
        matching("queue", queue, QUEUE_NAME)
        await self._ask(lambda on: self.store.pause(on, queue, by=self._by))

    async def resume(self, queue: str) -> None:
        """Let workers claim from a queue again."""
        matching("queue", queue, QUEUE_NAME)
        await self._ask(lambda on: self.store.resume(on, queue, by=self._by))

    async def paused(self) -> Sequence[str]:
        """The queues that are paused."""
        return await self._ask(self.store.paused)


class _Inside(Client):
    """A client inside the caller's transaction: at most one NOTIFY, sent by their commit."""

    def __init__(
        self,
        link: Connector,
        connection: Executor,
        notify: bool,
        tenant: TenantScope | None = None,
        by: str | None = None,
    ) -> None:
        super().__init__(link, connection, tenant=tenant, by=by)
        self._executor = connection
        self._notify = notify

    def _as(self, tenant: TenantScope | None, by: str | None) -> Client:
        return _Inside(self._link, self._executor, self._notify, tenant, by)

    async def _insert(self, on: Executor, requests: Sequence[Request[Any]], links: Links) -> Stored:
        return await self.store.enqueue(
            on, requests, notify=self._notify, durable=False, links=links
        )

    async def _enqueue(self, requests: Iterable[Request[T]], links: Links) -> list[Enqueued[T]]:
        if not (given := prepared(requests)):
            return []
        # Postgres itself folds equal notifications of one transaction into one.
        try:
            stored = await self._sent(
                given, lambda sent: self._ask(lambda on: self._insert(on, sent, links))
            )
        except TenantMissing as error:
            raise TenantMissing(tenant_of(given)) from error.__cause__
        return enqueued_from(stored)
