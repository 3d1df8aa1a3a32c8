"""Batches: groups of jobs with exact counts and callbacks."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
)

from msgspec import Struct
from msgspec.structs import replace

from penstock.connect import scope
from penstock.connect.enqueue import EnqueueCalls, Enqueued
from penstock.connect.wait import seconds_of
from penstock.errors import (
    BadArgument,
    BatchNotFound,
    BatchTimeout,
    JobNotFound,
    Misuse,
    TenantMismatch,
)
from penstock.groups.arguments import check_whole_number
from penstock.groups.failed import FailedCalls, Redriven
from penstock.groups.reasons import ReasonCalls
from penstock.job import Job
from penstock.store import key_of
from penstock.store.batches import Batches
from penstock.store.enqueue import JobLinks, stored_form
from penstock.tasks import Request, Task
from penstock.tasks.options import CHECKS
from penstock.tasks.registry import explain_not_a_task

if TYPE_CHECKING:
    from penstock.connect.scope import TenantScope


P = ParamSpec("P")
T = TypeVar("T")

BatchState = Literal["open", "running", "finished"]

# A statement with more jobs takes long to send, and locks the batch meanwhile.
MAX_JOBS_PER_STATEMENT: Final = 10_000
# With a lower rate, the remaining time cannot be estimated.
MIN_RATE_FOR_ETA: Final = 1e-5


class BatchStatus(Struct, frozen=True, kw_only=True):
    """A batch in its present state. The counts are exact.

    `total` is the number of all jobs. `pending` counts the jobs that have not ended, and `running`
    the pending jobs that are running now. `state` is `open` while jobs may be added, `running` once
    the batch is closed, and `finished` when all jobs have ended. `rate` is how many jobs have ended
    per second of late. `eta` is how many seconds the pending jobs take at that rate, and None if
    that cannot be estimated. Each `*_job` is the id of a callback's job, once that was enqueued.
    """

    id: str
    tenant: str
    name: str | None
    state: BatchState
    total: int
    pending: int
    running: int
    completed: int
    failed: int
    cancelled: int
    rate: float
    eta: float | None
    created_at: datetime
    closed_at: datetime | None
    cancelled_at: datetime | None
    finished_at: datetime | None
    failure_job: str | None
    success_job: str | None
    end_job: str | None
    meta: dict[str, Any] = {}

    @property
    def done(self) -> int:
        """How many jobs have ended: completed, failed or cancelled."""
        return self.total - self.pending

    @property
    def is_finished(self) -> bool:
        return self.state == "finished"


class BatchPage(Struct, frozen=True):
    """A page of batches, newest first.

    Pass `after` to get the next page. It is None on the last one.
    """

    batches: tuple[BatchStatus, ...]
    after: str | None


class BatchHandle:
    """Add jobs to a batch until it is closed.

    batch = await app.open_batch("import", on_success=publish)
    await batch.enqueue(index, 1)
    await batch.enqueue_many(index.prepare(page) for page in pages)
    await batch.close()
    """

    def __init__(
        self, calls: BatchCalls, batch_id: str, tenant: str, adder: str | None = None
    ) -> None:
        self.id = batch_id
        self.tenant = tenant
        self._calls = calls
        self._links = JobLinks(
            batch=batch_key(batch_id), adder=None if adder is None else key_of(adder)
        )

    async def enqueue(self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[T]:
        """Add one job. Raises BatchClosed if the batch is closed."""
        if not isinstance(task, Task):
            raise TypeError(explain_not_a_task("enqueue", task))
        [enqueued] = await self.enqueue_many([task.prepare(*args, **kwargs)])
        return enqueued

    async def enqueue_many(self, requests: Iterable[Request[T]]) -> list[Enqueued[T]]:
        """Add many jobs. The results are in the order of the requests.

        Each statement stores up to 10,000 jobs, all of them or none.
        """
        enqueued: list[Enqueued[T]] = []
        remaining = iter(requests)
        while chunk := list(islice(remaining, MAX_JOBS_PER_STATEMENT)):
            if self.tenant:
                chunk = [self._with_tenant(request) for request in chunk]
            enqueued += await self._calls._enqueue(chunk, self._links)
        return enqueued

    def _with_tenant(self, request: Request[T]) -> Request[T]:
        """Set the batch's tenant in a request without a tenant."""
        if request.options.tenant:
            return request
        return replace(request, options=replace(request.options, tenant=self.tenant))

    async def close(self) -> None:
        """Close the batch: no more jobs can be added. It finishes when its last job has ended."""
        await self._calls._close(self)

    async def status(self) -> BatchStatus:
        """Return the batch as it is now."""
        return await self._calls.get_batch(self)

    async def wait(self, timeout: float | timedelta | None = None) -> BatchStatus:
        """Wait until the batch is finished. Raises BatchTimeout."""
        return await self._calls.wait_batch(self, timeout)

    async def cancel(self, reason: str = "requested", *, by: str | None = None) -> int:
        """Close the batch and cancel its pending jobs. Return how many jobs were cancelled."""
        return await self._calls.cancel_batch(self, reason, by=by)

    async def retry(self, *, rate: float | str | None = None, by: str | None = None) -> Redriven:
        """Run the failed jobs again."""
        return await self._calls.retry_batch(self, rate=rate, by=by)

    def __repr__(self) -> str:
        return f"<Batch {self.id}>"


BatchId: TypeAlias = str | BatchHandle | BatchStatus | Job


def batch_id_of(batch: BatchId) -> str:
    """Return the id of a batch.

    A job of the batch, or one of its callbacks, may be passed instead of the batch.
    """
    if isinstance(batch, Job):
        batch_id = batch.batch or batch.meta.get("batch")
        if not isinstance(batch_id, str):
            raise BadArgument("batch", f"job {batch.id}", "a job of a batch, or a batch's callback")
        return batch_id
    if isinstance(batch, BatchHandle | BatchStatus):
        return batch.id
    if isinstance(batch, str):
        return batch
    raise TypeError(f"Pass the id of a batch as text, or one of its jobs, not {batch!r}.")


def batch_key(batch_id: str) -> int:
    try:
        return key_of(batch_id)
    except JobNotFound:
        raise BatchNotFound(batch_id) from None


def status_from(row: Mapping[str, Any]) -> BatchStatus:
    """Return the status of a batch from a row of `get_batches`."""
    pending, rate = row["pending"], row["rate"]
    fields = dict(row)
    del fields["changed_at"], fields["changes"]  # Only live updates need them.
    for name in ("failure_job", "success_job", "end_job"):
        fields[name] = None if row[name] is None else str(row[name])
    fields["meta"] = json.loads(row["meta"]) if row["meta"] else {}
    fields["eta"] = 0.0 if not pending else pending / rate if rate > MIN_RATE_FOR_ETA else None
    fields["state"] = _state(row["closed_at"], row["finished_at"])
    return BatchStatus(**fields | {"id": str(row["id"])})


def _state(closed_at: datetime | None, finished_at: datetime | None) -> BatchState:
    if closed_at is None:
        return "open"
    return "running" if finished_at is None else "finished"


Callback: TypeAlias = Request[Any] | Task[..., Any]

# The batch decides when a callback runs, and that it runs once.
_REFUSED_OPTIONS: Final = ("run_at", "deadline", "idempotency_key")


def stored_callbacks(
    tenant: str, callbacks: Mapping[str, Callback | None]
) -> dict[str, dict[str, Any]]:
    """Return callbacks as stored requests, by their event: success, end or failure.

    Callbacks of a tenant's batch belong to that tenant.
    """
    return {
        event: _stored_callback(f"on_{event}", callback, tenant)
        for event, callback in callbacks.items()
        if callback is not None
    }


def _stored_callback(setting: str, callback: Any, tenant: str) -> dict[str, Any]:
    request = callback.prepare() if isinstance(callback, Task) else callback
    if not isinstance(request, Request):
        raise Misuse(explain_not_a_task(setting, callback), setting)
    options = request.options
    for option in _REFUSED_OPTIONS:
        if (value := getattr(options, option)) is not None:
            raise Misuse(
                f"The request of {setting} has the option {option}, {value!r}. Leave it out: the "
                "batch decides when its callback runs, and runs it once.",
                option,
            )
    if options.unique is not None and options.unique.on_conflict == "raise":
        raise Misuse(
            f"The request of {setting} is set to raise on a conflict of its unique key, but "
            "nobody would receive that error. Choose skip, replace or supersede.",
            "on_conflict",
        )
    if tenant and options.tenant not in ("", tenant):
        raise TenantMismatch(options.tenant, tenant)
    own = {"tenant": options.tenant} if options.tenant else {}
    return stored_form(request) | own


MAX_NAME_LENGTH: Final = 500


class BatchOptions(TypedDict, total=False):
    """The options of a new batch: its callbacks, its tenant, and your own data in `meta`."""

    on_success: Callback | None
    on_end: Callback | None
    on_failure: Callback | None
    tenant: str
    meta: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class NewBatch:
    """The checked options of a new batch, in the form in which they are stored."""

    tenant: str
    name: str | None
    callbacks: Mapping[str, Any]
    meta: str | None

    @classmethod
    def of(cls, name: str | None, options: BatchOptions, tenant: TenantScope | None) -> NewBatch:
        if unknown := options.keys() - BatchOptions.__optional_keys__:
            raise TypeError(f"There is no option {', '.join(sorted(unknown))} for a batch.")
        owner = options.get("tenant", "")
        if tenant is not None:
            owner = tenant.resolve(owner)
        owner = CHECKS["tenant"]("tenant", owner)
        callbacks: dict[str, Callback | None] = {
            "success": options.get("on_success"),
            "end": options.get("on_end"),
            "failure": options.get("on_failure"),
        }
        meta = CHECKS["meta"]("meta", options.get("meta"))
        return cls(owner, _name(name), stored_callbacks(owner, callbacks), meta)


def _name(name: Any) -> str | None:
    scope.check_texts(name=name)
    if name is not None and not 1 <= len(name) <= MAX_NAME_LENGTH:
        raise BadArgument("name", name, f"1 to {MAX_NAME_LENGTH} characters")
    return None if name is None else str(name)


logger = logging.getLogger("penstock")

MAX_BATCHES_PER_PAGE: Final = 1000
MAX_JOBS_PER_CANCEL: Final = 500
STATES: Final = ("open", "running", "finished")


class BatchCalls(FailedCalls, EnqueueCalls, ReasonCalls):
    """The calls for batches. Failed jobs of a batch are dead letters, and are retried like them.

    `by` is the name that the audit records for a change.
    """

    async def open_batch(
        self, name: str | None = None, **options: Unpack[BatchOptions]
    ) -> BatchHandle:
        """Open a batch. It stays open until `close`, which any process may call.

        The callbacks are jobs. Each is enqueued once: `on_failure` when the first job has failed,
        `on_success` when all have completed, `on_end` when all have ended in any way.
        """
        batch = NewBatch.of(name, options, self._tenant)
        batch_id = await self._execute(
            lambda on: Batches(self.store).open(
                on, batch.tenant, batch.name, batch.callbacks, batch.meta, by=self._by
            ),
            retry=False,
        )
        return BatchHandle(self, str(batch_id), batch.tenant)

    def batch(
        self, name: str | None = None, **options: Unpack[BatchOptions]
    ) -> AbstractAsyncContextManager[BatchHandle]:
        """Open a batch for an `async with` block, and close it at the end.

            async with app.batch("import", on_success=publish.prepare(42)) as batch:
                await batch.enqueue_many(index.prepare(page) for page in pages)

        The jobs run as soon as they are added. If the block raises, the batch is cancelled: pending
        jobs do not run, and `on_success` is never enqueued, since the batch is not complete.
        """
        return self._block(self.open_batch(name, **options))

    @asynccontextmanager
    async def _block(self, opening: Awaitable[BatchHandle]) -> AsyncIterator[BatchHandle]:
        batch = await opening
        try:
            yield batch
        except BaseException:
            await self._cancel_failed(batch)
            raise
        await batch.close()

    async def _cancel_failed(self, batch: BatchHandle) -> None:
        """Cancel a batch whose block raised.

        If that fails, only log it: the error of the block is the one to raise.
        """
        try:
            await batch.cancel("batch_failed")
        except Exception as error:
            logger.warning(
                "Batch %s could not be cancelled after its block failed: %s", batch.id, error
            )

    async def batch_handle(self, batch: BatchId) -> BatchHandle:
        """Return a handle to add jobs to a batch, by its id or by one of its jobs.

            batch = await app.batch_handle(ctx.job)        # in a handler: the batch of this job
            await batch.enqueue(index, page)

        A running job may add to its own batch even if that is closed, because the batch cannot
        finish before the job does.
        """
        status = await self.get_batch(batch)
        adder = batch.id if isinstance(batch, Job) and batch.batch else None
        return BatchHandle(self, status.id, status.tenant, adder)

    async def get_batch(self, batch: BatchId) -> BatchStatus:
        """Return a batch as it is now. In the handler of a callback, pass `ctx.job`."""
        batch_id = batch_id_of(batch)
        key = batch_key(batch_id)
        rows = await self._execute(lambda on: Batches(self.store).get(on, [key]))
        if not rows:
            raise BatchNotFound(batch_id)
        return status_from(rows[0])

    async def batches(
        self,
        *,
        state: BatchState | None = None,
        name: str | None = None,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> BatchPage:
        """List batches, newest first. Pass `page.after` as `after` for the next page."""
        check_whole_number("limit", limit, 1, MAX_BATCHES_PER_PAGE)
        if state is not None and state not in STATES:
            raise BadArgument("state", state, f"one of {', '.join(STATES)}")
        if self._tenant is not None:
            tenant = self._tenant.resolve(tenant)
        scope.check_texts(tenant=tenant, name=name)
        start = batch_key(after) if after else None
        rows = await self._execute(
            lambda on: Batches(self.store).page(on, tenant, name, state, start, limit)
        )
        page = tuple(status_from(row) for row in rows)
        return BatchPage(page, page[-1].id if len(page) == limit else None)

    async def wait_batch(
        self, batch: BatchId, timeout: float | timedelta | None = None
    ) -> BatchStatus:
        """Wait until a batch is finished, even if its jobs fail. Raises BatchTimeout."""
        batch_id = batch_id_of(batch)
        key = batch_key(batch_id)

        async def is_finished() -> bool:
            finished = await self._execute(lambda on: Batches(self.store).is_finished(on, key))
            if finished is None:
                raise BatchNotFound(batch_id)
            return finished

        seconds = seconds_of(timeout)
        has_finished = await self._poll(bool, is_finished, seconds)
        status = await self.get_batch(batch_id)
        if not has_finished and not status.is_finished:
            why = await self._why(lambda: self.why_batch(batch_id), f"batch {batch_id}")
            raise BatchTimeout(status.id, status.state, status.pending, seconds or 0.0, why)
        return status

    async def why_batch(self, batch: BatchId) -> str:
        """Explain why a batch is not finished: say what some of its jobs wait for."""
        key = batch_key(batch_id_of(batch))
        if await self._execute(lambda on: Batches(self.store).is_finished(on, key)) is None:
            raise BatchNotFound(str(key))
        return await self._why_jobs(batch=key)

    async def close_batch(self, batch: BatchId, *, by: str | None = None) -> None:
        """Close a batch, so that only its own jobs can still add to it.

        The batch finishes when its last job has ended.
        """
        await self._close(batch, noted=True, by=by)

    async def cancel_batch(
        self, batch: BatchId, reason: str = "requested", *, by: str | None = None
    ) -> int:
        """Close a batch and cancel its jobs that have not ended. Return how many were cancelled.

        `on_end` is still enqueued, but `on_success` never is.
        """
        return [number async for number in self.cancelling_batch(batch, reason, by=by)][-1]

    async def cancelling_batch(
        self, batch: BatchId, reason: str = "requested", *, by: str | None = None
    ) -> AsyncIterator[int]:
        """Do the same as `cancel_batch`, but yield the total so far after every 500 jobs."""
        key = await self._close(batch, reason, noted=True, by=by)
        number = after = 0
        while True:
            page = await self._execute(
                partial(
                    Batches(self.store).cancel,
                    batch=key,
                    after=after,
                    limit=MAX_JOBS_PER_CANCEL,
                    reason=reason,
                )
            )
            number, after = number + page.cancelled, page.last
            yield number
            if page.found < MAX_JOBS_PER_CANCEL:
                return

    async def retry_batch(
        self, batch: BatchId, *, rate: float | str | None = None, by: str | None = None
    ) -> Redriven:
        """Run the failed jobs of a batch again, and return the same result as `redrive`.

        A finished batch is then running again. If all jobs complete this time, `on_success` is
        enqueued.
        """
        status = await self.get_batch(batch)
        return await self.redrive(batch=status.id, rate=rate, by=by)

    async def _close(
        self,
        batch: BatchId,
        reason: str | None = None,
        *,
        noted: bool = False,
        by: str | None = None,
    ) -> int:
        """Close a batch, or cancel it if a reason is given. Return the number of the batch.

        `noted` says whether to write the change to the audit. When a BatchHandle is closed, nothing
        is written.
        """
        batch_id = batch_id_of(batch)
        key, actor = batch_key(batch_id), self._actor(by)
        is_there = await self._execute(
            lambda on: Batches(self.store).close(on, key, reason, noted=noted, by=actor)
        )
        if not is_there:
            raise BatchNotFound(batch_id)
        return key
