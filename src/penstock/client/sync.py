"""The client for code that does not await: the same calls, blocking."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock.client.batch import Batch, BatchId
from penstock.client.batches import BatchCalls
from penstock.client.callbacks import Callback
from penstock.client.client import Client
from penstock.client.dead import DeadCalls
from penstock.client.event_calls import EventCalls
from penstock.client.retention import RetentionCalls
from penstock.client.schedules import ScheduleCalls
from penstock.client.sync_batch import Run, SyncBatch
from penstock.client.tuning import TuningCalls
from penstock.client.workflow_calls import WorkflowCalls
from penstock.store import adapt, drive

P = ParamSpec("P")
T = TypeVar("T")
# A client is each of them.
C = TypeVar(
    "C",
    bound=BatchCalls
    | TuningCalls
    | DeadCalls
    | RetentionCalls
    | ScheduleCalls
    | EventCalls
    | WorkflowCalls,
)


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """A client's method as one that blocks, with the same parameters and the same result."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        client: Any = self._client
        return self._run(method(client, *args, **kwargs))

    return call


class SyncClient:
    """Every call of the client, for scripts, threads and frameworks that block.

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
    list = blocking(Client.list)
    wait = blocking(Client.wait)
    cancel = blocking(Client.cancel)
    retry = blocking(Client.retry)
    delete = blocking(Client.delete)
    pause = blocking(Client.pause)
    resume = blocking(Client.resume)
    paused = blocking(Client.paused)

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

    start = blocking(Client.start)
    extend = blocking(Client.extend)
    workflow = blocking(Client.workflow)
    workflows = blocking(Client.workflows)
    awaited = blocking(Client.awaited)
    wait_workflow = blocking(Client.wait_workflow)
    cancel_workflow = blocking(Client.cancel_workflow)
    retry_workflow = blocking(Client.retry_workflow)
    unblock = blocking(Client.unblock)

    batch_status = blocking(Client.batch_status)
    batches = blocking(Client.batches)
    wait_batch = blocking(Client.wait_batch)
    close_batch = blocking(Client.close_batch)
    cancel_batch = blocking(Client.cancel_batch)
    retry_batch = blocking(Client.retry_batch)

    def open_batch(
        self,
        name: str | None = None,
        *,
        on_success: Callback | None = None,
        on_end: Callback | None = None,
        on_failure: Callback | None = None,
        tenant: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> SyncBatch:
        """Begin a batch; it stays open until `close`. See `Client.open_batch`."""
        opening = self._client.open_batch(
            name,
            on_success=on_success,
            on_end=on_end,
            on_failure=on_failure,
            tenant=tenant,
            meta=meta,
        )
        return SyncBatch(self._run(opening), self._run)

    @contextmanager
    def batch(
        self,
        name: str | None = None,
        *,
        on_success: Callback | None = None,
        on_end: Callback | None = None,
        on_failure: Callback | None = None,
        tenant: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> Iterator[SyncBatch]:
        """A batch that is closed at the end of the block, or cancelled if that raises."""
        batch = self.open_batch(
            name,
            on_success=on_success,
            on_end=on_end,
            on_failure=on_failure,
            tenant=tenant,
            meta=meta,
        )
        try:
            yield batch
        except BaseException:
            self._run(self._client._give_up(batch._batch))
            raise
        batch.close()

    def get_batch(self, batch: BatchId) -> SyncBatch:
        """A batch to add to, by its id, or by a job of it. See `Client.get_batch`."""
        found: Batch = self._run(self._client.get_batch(batch))
        return SyncBatch(found, self._run)

    def inside(self, connection: Any, *, notify: bool = True) -> SyncClient:
        """The same calls on your own connection: part of your transaction, or not at all.

            with psycopg.connect(…) as connection:
                connection.execute("INSERT INTO invoice …")
                app.sync.inside(connection).enqueue(send_invoice, 42)

        It takes a connection of psycopg, SQLAlchemy's Connection or Session, or Django's.
        """
        return _SyncInside(self._client.on(adapt(connection, "blocking"), notify=notify), drive)

    def for_tenant(self, tenant: str) -> SyncClient:
        """The same calls as one tenant: its jobs are enqueued, and no other's.

        app.sync.for_tenant("acme").enqueue(send_invoice, 42)
        """
        return SyncClient(self._client.for_tenant(tenant), self._run)


class _SyncInside(SyncClient):
    def for_tenant(self, tenant: str) -> SyncClient:
        return _SyncInside(self._client.for_tenant(tenant), self._run)

    def wait(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "Inside your transaction nothing can be waited for: a job that it enqueues begins "
            "after your commit. Wait on app.sync, after the commit."
        )

    wait_batch = wait
