"""The client: all calls in one class, on a connection of the app's or of the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from penstock.connect.connector import Connector
from penstock.connect.enqueue import Enqueued, enqueued_from, prepared, tenant_of
from penstock.connect.scope import TenantScope
from penstock.connect.wait import seconds_of, verdict
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
from penstock.store.enqueue import Links, Stored
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
        return _Inside(self._connector, executor, notify, self._tenant, self._by)

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
        return Client(self._connector, wake=self._wake, tenant=tenant, by=by)

    def statement(self, *requests: Request[Any], notify: bool = True) -> Statement:
        """What enqueues jobs, as SQL and parameters, for a driver that `inside` does not know.

            sql, params = app.statement(send_invoice.prepare(42))
            row = await connection.fetchrow(sql, *params)       # row["ids"] has the job ids

        The places are `$1, $2, …`; `.pyformat` has them as `%(p1)s`.
        """
        given = prepared(requests)
        if self._tenant is not None:
            given = self._tenant.signed(given)
        if (tracing := self._connector.tracing and self._connector.tracing.active()) is not None:
            given = list(tracing.carried(given))
        return self.store.enqueue_statement(given, notify=notify, durable=False)

    async def wait(self, job: str | Enqueued[T], timeout: float | timedelta | None = None) -> T:
        """The job's result once it is done; raises JobFailed, JobCancelled or WaitTimeout."""
        seconds = seconds_of(timeout)
        found = await self._until(lambda seen: seen.state in FINAL, lambda: self.get(job), seconds)
        if found.state not in FINAL:
            why = await self._why(lambda: self.why(found.id), f"job {found.id}")
            raise WaitTimeout(found.id, found.state, seconds or 0.0, why)
        return verdict(found)  # type: ignore[return-value]


class _Inside(Client):
    """A client inside the caller's transaction: at most one NOTIFY, sent by their commit."""

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
