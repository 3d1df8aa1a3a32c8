"""Blocking versions of the app, the client and batches, for code that does not await."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack

from penstock.app.client import Client
from penstock.connect.scope import Calls
from penstock.groups.batches import BatchHandle, BatchId, BatchOptions
from penstock.store import adapt, drive

if TYPE_CHECKING:
    from penstock.app.app import Penstock
    from penstock.connect.loops import BlockingPortal

P = ParamSpec("P")
T = TypeVar("T")


class Run(Protocol):
    """Runs a coroutine to its end and returns its result."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T: ...


def _blocking(
    method: Callable[Concatenate[BatchHandle, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncBatchHandle, P], T]:
    """Return a blocking version of a batch's method, with the same parameters and result."""

    @wraps(method)
    def call(self: SyncBatchHandle, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._batch, *args, **kwargs))

    return call


class SyncBatchHandle:
    """Add jobs to a batch until it is closed; see BatchHandle.

    with app.sync.batch("import") as batch:
        batch.enqueue(index, 1)
    """

    def __init__(self, batch: BatchHandle, run: Run) -> None:
        self._batch = batch
        self._run = run

    @property
    def id(self) -> str:
        return self._batch.id

    @property
    def tenant(self) -> str:
        return self._batch.tenant

    enqueue = _blocking(BatchHandle.enqueue)
    enqueue_many = _blocking(BatchHandle.enqueue_many)
    close = _blocking(BatchHandle.close)
    status = _blocking(BatchHandle.status)
    wait = _blocking(BatchHandle.wait)
    cancel = _blocking(BatchHandle.cancel)
    retry = _blocking(BatchHandle.retry)

    def __repr__(self) -> str:
        return repr(self._batch)


C = TypeVar("C", bound=Calls)


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Return a blocking version of a client's method, with the same parameters and result."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        client: Any = self._client
        return self._run(method(client, *args, **kwargs))

    return call


class SyncClient:
    """Blocking versions of the client's calls, for scripts, threads and frameworks that block.

    job = app.sync.enqueue(send_invoice, 42)
    app.sync.wait(job, timeout=30)
    """

    def __init__(self, client: Client, run: Run) -> None:
        self._client = client
        self._run = run

    enqueue = blocking(Client.enqueue)
    enqueue_many = blocking(Client.enqueue_many)
    get = blocking(Client.get)
    find = blocking(Client.find)
    states = blocking(Client.states)
    present = blocking(Client.present)
    list = blocking(Client.list)
    wait = blocking(Client.wait)
    why = blocking(Client.why)
    why_batch = blocking(Client.why_batch)
    why_workflow = blocking(Client.why_workflow)
    cancel = blocking(Client.cancel)
    retry = blocking(Client.retry)
    delete = blocking(Client.delete)
    retry_many = blocking(Client.retry_many)
    cancel_many = blocking(Client.cancel_many)
    delete_many = blocking(Client.delete_many)
    unblock_many = blocking(Client.unblock_many)
    unique_holders = blocking(Client.unique_holders)
    pause = blocking(Client.pause)
    resume = blocking(Client.resume)
    paused = blocking(Client.paused)

    create_key = blocking(Client.create_key)
    keys = blocking(Client.keys)
    get_key = blocking(Client.get_key)
    rotate_key = blocking(Client.rotate_key)
    revoke_key = blocking(Client.revoke_key)
    check_key = blocking(Client.check_key)
    first_key = blocking(Client.first_key)
    add_person = blocking(Client.add_person)
    set_person = blocking(Client.set_person)
    people = blocking(Client.people)
    find_person = blocking(Client.find_person)
    try_login = blocking(Client.try_login)
    fail_login = blocking(Client.fail_login)
    open_login = blocking(Client.open_login)
    check_login = blocking(Client.check_login)
    close_login = blocking(Client.close_login)
    audit = blocking(Client.audit)

    send_event = blocking(Client.send_event)
    sent_events = blocking(Client.sent_events)

    set_queue = blocking(Client.set_queue)
    queue_settings = blocking(Client.queue_settings)
    set_lane = blocking(Client.set_lane)
    remove_lane = blocking(Client.remove_lane)
    lane_settings = blocking(Client.lane_settings)
    set_limit = blocking(Client.set_limit)
    remove_limit = blocking(Client.remove_limit)
    limits = blocking(Client.limits)
    close_bucket = blocking(Client.close_bucket)
    open_bucket = blocking(Client.open_bucket)
    set_plan = blocking(Client.set_plan)
    remove_plan = blocking(Client.remove_plan)
    plans = blocking(Client.plans)
    set_tenant = blocking(Client.set_tenant)
    remove_tenant = blocking(Client.remove_tenant)
    tenants = blocking(Client.tenants)

    dead_letters = blocking(Client.dead_letters)
    dead_summary = blocking(Client.dead_summary)
    redrive = blocking(Client.redrive)
    purge = blocking(Client.purge)
    set_retention = blocking(Client.set_retention)
    remove_retention = blocking(Client.remove_retention)
    retentions = blocking(Client.retentions)

    set_schedule = blocking(Client.set_schedule)
    schedules = blocking(Client.schedules)
    get_schedule = blocking(Client.get_schedule)
    schedule_fires = blocking(Client.schedule_fires)
    pause_schedule = blocking(Client.pause_schedule)
    resume_schedule = blocking(Client.resume_schedule)
    reset_schedule = blocking(Client.reset_schedule)
    remove_schedule = blocking(Client.remove_schedule)
    run_schedule = blocking(Client.run_schedule)

    start_workflow = blocking(Client.start_workflow)
    extend_workflow = blocking(Client.extend_workflow)
    get_workflow = blocking(Client.get_workflow)
    workflows = blocking(Client.workflows)
    awaited = blocking(Client.awaited)
    wait_workflow = blocking(Client.wait_workflow)
    cancel_workflow = blocking(Client.cancel_workflow)
    retry_workflow = blocking(Client.retry_workflow)
    unblock = blocking(Client.unblock)

    get_batch = blocking(Client.get_batch)
    batches = blocking(Client.batches)
    wait_batch = blocking(Client.wait_batch)
    close_batch = blocking(Client.close_batch)
    cancel_batch = blocking(Client.cancel_batch)
    retry_batch = blocking(Client.retry_batch)

    def open_batch(
        self, name: str | None = None, **options: Unpack[BatchOptions]
    ) -> SyncBatchHandle:
        """Open a batch. It stays open until `close`. See `Client.open_batch`."""
        return SyncBatchHandle(self._run(self._client.open_batch(name, **options)), self._run)

    @contextmanager
    def batch(
        self, name: str | None = None, **options: Unpack[BatchOptions]
    ) -> Iterator[SyncBatchHandle]:
        """Open a batch for a block. Close it at the end, or cancel it if the block raises."""
        batch = self.open_batch(name, **options)
        try:
            yield batch
        except BaseException:
            self._run(self._client._cancel_failed(batch._batch))
            raise
        batch.close()

    def batch_handle(self, batch: BatchId) -> SyncBatchHandle:
        """Return a handle to add jobs to a batch. See `Client.batch_handle`."""
        handle: BatchHandle = self._run(self._client.batch_handle(batch))
        return SyncBatchHandle(handle, self._run)

    def inside(self, connection: Any, *, notify: bool = True) -> SyncClient:
        """Return a client whose calls run on your own connection, as part of your transaction.

            with psycopg.connect(…) as connection:
                connection.execute("INSERT INTO invoice …")
                app.sync.inside(connection).enqueue(send_invoice, 42)

        The connection may be one of psycopg or Django, or a Connection or Session of SQLAlchemy.
        """
        return SyncClient(self._client.on(adapt(connection, "blocking"), notify=notify), drive)

    def for_tenant(self, tenant: str, *, confined: bool = False) -> SyncClient:
        """Return a client for one tenant. It enqueues jobs for no other tenant.

        app.sync.for_tenant("acme").enqueue(send_invoice, 42)
        """
        return SyncClient(self._client.for_tenant(tenant, confined=confined), self._run)

    def acting(self, by: str) -> SyncClient:
        """Return a client whose changes are recorded in the audit under the name `by`."""
        return SyncClient(self._client.acting(by), self._run)


class SyncPenstock(SyncClient):
    """The blocking calls of an app. The first call opens the app. `with app.sync:` also closes it.

    with app.sync as jobs:
        jobs.migrate()
        jobs.enqueue(greet, "Ada")
    """

    def __init__(self, app: Penstock, portal: BlockingPortal) -> None:
        super().__init__(app, portal.run)
        self._app = app
        self._portal = portal

    def migrate(self) -> list[str]:
        """Run all pending migrations, and return their names."""
        return self._portal.run(self._app.migrate())

    def sync_schedules(self) -> list[str]:
        """Store the schedules of this code, as a worker does when it starts.

        Return the names of the schedules that changed.
        """
        return self._portal.run(self._app.sync_schedules())

    def open(self) -> Self:
        """Connect now, and start the embedded Postgres if there is no other database."""
        self._portal.run(self._app.open())
        return self

    def close(self) -> None:
        """Close the app, unless it is open in an event loop of the caller."""
        self._portal.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
