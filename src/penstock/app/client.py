"""The client: all calls in one class, on the app's pool or a connection of the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from penstock.connect.connector import Connector
from penstock.connect.enqueue import Enqueued, check_requests, tenant_of, to_enqueued
from penstock.connect.scope import TenantScope
from penstock.connect.wait import result_of, seconds_of
from penstock.errors import TenantMissing, WaitTimeout
from penstock.groups.audit import AuditCalls
from penstock.groups.batches import BatchCalls
from penstock.groups.events import EventCalls
from penstock.groups.failed import FailedCalls
from penstock.groups.jobs import JobCalls
from penstock.groups.keys import KeyCalls
from penstock.groups.schedules import ScheduleCalls
from penstock.groups.settings import RetentionCalls, SettingCalls
from penstock.groups.snapshots import SnapshotCalls
from penstock.groups.users import UserCalls
from penstock.groups.workflows import WorkflowCalls
from penstock.job import FINAL
from penstock.store import Executor, Statement, adapt
from penstock.store.enqueue import JobLinks, Stored
from penstock.tasks import Request
from penstock.tasks.options import limit_key

T = TypeVar("T")


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
    JobCalls,
    SnapshotCalls,
):
    """All calls, on the app's pool or inside the caller's transaction."""

    def inside(self, connection: Any, *, notify: bool = True) -> Client:
        """Return a client whose calls run on your own connection, as part of your transaction.

            async with connection.transaction():
                await connection.execute("INSERT INTO invoice …")
                await app.inside(connection).enqueue(send_invoice, 42)

        The connection may be one of asyncpg, an async one of psycopg, or an AsyncConnection or
        AsyncSession of SQLAlchemy. For blocking connections, use `app.sync.inside`. Your commit
        wakes workers. With `notify=False` they find the jobs by polling.
        """
        return self.on(adapt(connection), notify=notify)

    def on(self, executor: Executor, *, notify: bool = True) -> Client:
        """Return a client on a connection or adapter that the store can use."""
        return _Inside(self._connector, executor, notify, self._tenant, self._by)

    def for_tenant(self, tenant: str, *, confined: bool = False) -> Client:
        """Return a client for one tenant. It enqueues jobs for no other tenant.

            await app.for_tenant("acme").enqueue(send_invoice, 42)

        Each call is a transaction with `penstock.tenant` set. Under row level security, the
        database then hides all other tenants' jobs; see docs/tenants.md. With `confined=True` the
        client also switches to the role of apps. These jobs are then hidden even if you log in as
        the owner of the schema.
        """
        return self._as(TenantScope(tenant, confined=confined), self._by)

    def acting(self, by: str) -> Client:
        """Return a client whose changes are recorded in the audit under the name `by`.

            await app.acting("ada").cancel(job)

        Changes of single jobs and pauses are recorded only if the client has such a name.
        """
        return self._as(self._tenant, limit_key("by", by))

    def _as(self, tenant: TenantScope | None, by: str | None) -> Client:
        return Client(self._connector, wake=self._wake, tenant=tenant, by=by)

    def statement(self, *requests: Request[Any], notify: bool = True) -> Statement:
        """Return SQL and parameters that enqueue jobs, for a driver that `inside` does not support.

            sql, params = app.statement(send_invoice.prepare(42))
            row = await connection.fetchrow(sql, *params)       # row["ids"] has the job ids

        The placeholders are `$1, $2, …`; `.pyformat` has them as `%(p1)s`.
        """
        checked = check_requests(requests)
        if self._tenant is not None:
            checked = self._tenant.assign(checked)
        if (tracing := self._connector.tracing and self._connector.tracing.active()) is not None:
            checked = list(tracing.carried(checked))
        return self.store.enqueue_statement(checked, notify=notify, durable=False)

    async def wait(self, job: str | Enqueued[T], timeout: float | timedelta | None = None) -> T:
        """Wait for a job and return its result. Raises JobFailed, JobCancelled or WaitTimeout."""
        seconds = seconds_of(timeout)
        last = await self._poll(lambda now: now.state in FINAL, lambda: self.get(job), seconds)
        if last.state not in FINAL:
            why = await self._why(lambda: self.why(last.id), f"job {last.id}")
            raise WaitTimeout(last.id, last.state, seconds or 0.0, why)
        return result_of(last)  # type: ignore[return-value]


class _Inside(Client):
    """A client inside the caller's transaction, whose commit sends the notifications."""

    def __init__(
        self,
        connector: Connector,
        connection: Executor,
        notify: bool,
        tenant: TenantScope | None = None,
        by: str | None = None,
    ) -> None:
        super().__init__(connector, connection, tenant=tenant, by=by)
        self._executor = connection
        self._notify = notify

    def _as(self, tenant: TenantScope | None, by: str | None) -> Client:
        return _Inside(self._connector, self._executor, self._notify, tenant, by)

    async def _insert(
        self, on: Executor, requests: Sequence[Request[Any]], links: JobLinks
    ) -> Stored:
        return await self.store.enqueue(
            on, requests, notify=self._notify, durable=False, links=links
        )

    async def _enqueue(self, requests: Iterable[Request[T]], links: JobLinks) -> list[Enqueued[T]]:
        if not (checked := check_requests(requests)):
            return []
        # Postgres merges equal notifications of one transaction.
        try:
            stored = await self._store_traced(
                checked, lambda traced: self._execute(lambda on: self._insert(on, traced, links))
            )
        except TenantMissing as error:
            raise TenantMissing(tenant_of(checked)) from error.__cause__
        return to_enqueued(stored)
