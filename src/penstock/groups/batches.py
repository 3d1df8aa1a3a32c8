"""Batches: many jobs as one, with exact counts and callbacks."""

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
from penstock.groups.arguments import whole
from penstock.groups.failed import FailedCalls, Redriven
from penstock.groups.reasons import ReasonCalls
from penstock.job import Job
from penstock.store import key_of
from penstock.store.batches import Batches
from penstock.store.enqueue import Links, stored_form
from penstock.tasks import Request, Task
from penstock.tasks.options import CHECKS
from penstock.tasks.registry import explain_not_a_task

if TYPE_CHECKING:
    from penstock.connect.scope import TenantScope


P = ParamSpec("P")
T = TypeVar("T")

BatchState = Literal["open", "running", "finished"]

# A statement with more takes long to send, and holds the batch open for as long.
MAX_JOBS_PER_STATEMENT: Final = 10_000
# With a lower rate nobody can say how long it takes.
MIN_RATE_FOR_ETA: Final = 1e-5


class BatchStatus(Struct, frozen=True, kw_only=True):
    """A batch as it is now. The counts are exact: what pends and what has ended makes `total`.

    `running` are those of the pending that run. `state` is `open` while jobs are added, `running`
    once it is closed, `finished` when nothing pends any more. `rate` is how many end a second, as
    of late; `eta` how many seconds what pends takes at that rate, None if nobody can say.
    `*_job` is the id of the callback's job, once it was enqueued.
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
        """How many have ended, one way or another."""
        return self.total - self.pending

    @property
    def is_finished(self) -> bool:
        return self.state == "finished"


class BatchPage(Struct, frozen=True):
    """Some batches, newest first, and what to pass as `after` for the next ones."""

    batches: tuple[BatchStatus, ...]
    after: str | None


class BatchHandle:
    """A batch to add jobs to, until it is closed.

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
        self._links = Links(
            batch=batch_key(batch_id), adder=None if adder is None else key_of(adder)
        )

    async def enqueue(self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[T]:
        """Add one job; BatchClosed once the batch is."""
        if not isinstance(task, Task):
            raise TypeError(explain_not_a_task("enqueue", task))
        [enqueued] = await self.enqueue_many([task.prepare(*args, **kwargs)])
        return enqueued

    async def enqueue_many(self, requests: Iterable[Request[T]]) -> list[Enqueued[T]]:
        """Add many jobs; the answers come in the same order.

        They go in pieces of 10,000, each of them stored whole or not at all.
        """
        enqueued: list[Enqueued[T]] = []
        given = iter(requests)
        while piece := list(islice(given, MAX_JOBS_PER_STATEMENT)):
            signed = [self._signed(request) for request in piece] if self.tenant else piece
            enqueued += await self._calls._enqueue(signed, self._links)
        return enqueued

    def _signed(self, request: Request[T]) -> Request[T]:
        """The request as one of the batch's tenant, if it names none."""
        if request.options.tenant:
            return request
        return replace(request, options=replace(request.options, tenant=self.tenant))

    async def close(self) -> None:
        """Add no more: the batch is finished when the last of its jobs has ended."""
        await self._calls._close(self)

    async def status(self) -> BatchStatus:
        """The batch as it is now."""
        return await self._calls.get_batch(self)

    async def wait(self, timeout: float | timedelta | None = None) -> BatchStatus:
        """Wait until it is finished; raises BatchTimeout."""
        return await self._calls.wait_batch(self, timeout)

    async def cancel(self, reason: str = "requested", *, by: str | None = None) -> int:
        """Close it and end all that pends: how many jobs."""
        return await self._calls.cancel_batch(self, reason, by=by)

    async def retry(self, *, rate: float | str | None = None, by: str | None = None) -> Redriven:
        """Run again what has failed."""
        return await self._calls.retry_batch(self, rate=rate, by=by)

    def __repr__(self) -> str:
        return f"<Batch {self.id}>"


BatchId: TypeAlias = str | BatchHandle | BatchStatus | Job


def batch_id_of(batch: BatchId) -> str:
    """The id of a batch; of a job, that of the batch that it is in, or that it is a callback of."""
    if isinstance(batch, Job):
        found = batch.batch or batch.meta.get("batch")
        if not isinstance(found, str):
            raise BadArgument("batch", f"job {batch.id}", "a job of a batch, or a batch's callback")
        return found
    if isinstance(batch, BatchHandle | BatchStatus):
        return batch.id
    if isinstance(batch, str):
        return batch
    raise TypeError(f"A batch is named by its id, a text, or by a job of it; not by {batch!r}.")


def batch_key(batch_id: str) -> int:
    try:
        return key_of(batch_id)
    except JobNotFound:
        raise BatchNotFound(batch_id) from None


def status_from(row: Mapping[str, Any]) -> BatchStatus:
    """The status that a row of `get_batches` tells of."""
    pending, rate = row["pending"], row["rate"]
    plain = dict(row)
    del plain["changed_at"], plain["changes"]  # for those who watch
    for name in ("failure_job", "success_job", "end_job"):
        plain[name] = None if row[name] is None else str(row[name])
    plain["meta"] = json.loads(row["meta"]) if row["meta"] else {}
    plain["eta"] = 0.0 if not pending else pending / rate if rate > MIN_RATE_FOR_ETA else None
    plain["state"] = _state(row["closed_at"], row["finished_at"])
    return BatchStatus(**plain | {"id": str(row["id"])})


def _state(closed_at: datetime | None, finished_at: datetime | None) -> BatchState:
    if closed_at is None:
        return "open"
    return "running" if finished_at is None else "finished"


Callback: TypeAlias = Request[Any] | Task[..., Any]

# The batch says when, and that it is once.
_NOT_CALLED: Final = ("run_at", "deadline", "idempotency_key")


def callbacks_of(tenant: str, given: Mapping[str, Callback | None]) -> dict[str, dict[str, Any]]:
    """The stored forms by their moments; of a tenant's batch all are that tenant's."""
    return {
        moment: _form(f"on_{moment}", what, tenant)
        for moment, what in given.items()
        if what is not None
    }


def _form(setting: str, what: Any, tenant: str) -> dict[str, Any]:
    request = what.prepare() if isinstance(what, Task) else what
    if not isinstance(request, Request):
        raise Misuse(explain_not_a_task(setting, what), setting)
    options = request.options
    for option in _NOT_CALLED:
        if (value := getattr(options, option)) is not None:
            raise Misuse(
                f"The request of {setting} has the option {option}, {value!r}: leave it out, since "
                "the batch says when it runs, and once.",
                option,
            )
    if options.unique is not None and options.unique.on_conflict == "raise":
        raise Misuse(
            f"The request of {setting} raises where its unique key is held, and nobody would hear "
            "of it: choose skip, replace or supersede.",
            "on_conflict",
        )
    if tenant and options.tenant not in ("", tenant):
        raise TenantMismatch(options.tenant, tenant)
    own = {"tenant": options.tenant} if options.tenant else {}
    return stored_form(request) | own


LONGEST_NAME: Final = 500


class BatchOptions(TypedDict, total=False):
    """What may be said of a new batch: its callbacks, whose it is, and anything else as `meta`."""

    on_success: Callback | None
    on_end: Callback | None
    on_failure: Callback | None
    tenant: str
    meta: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A new batch as it is stored."""

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
            owner = tenant.named(owner)
        owner = CHECKS["tenant"]("tenant", owner)
        given: dict[str, Callback | None] = {
            "success": options.get("on_success"),
            "end": options.get("on_end"),
            "failure": options.get("on_failure"),
        }
        meta = CHECKS["meta"]("meta", options.get("meta"))
        return cls(owner, _name(name), callbacks_of(owner, given), meta)


def _name(name: Any) -> str | None:
    scope.texts(name=name)
    if name is not None and not 1 <= len(name) <= LONGEST_NAME:
        raise BadArgument("name", name, f"1 to {LONGEST_NAME} characters")
    return None if name is None else str(name)


logger = logging.getLogger("penstock")

LONGEST_PAGE: Final = 1000
MAX_JOBS_PER_CANCEL: Final = 500
STATES: Final = ("open", "running", "finished")


class BatchCalls(FailedCalls, EnqueueCalls, ReasonCalls):
    """The calls for batches. What failed in one are dead letters; they are run again as such.

    `by` says in the audit who closed, cancelled or retried one.
    """

    async def open_batch(
        self, name: str | None = None, **options: Unpack[BatchOptions]
    ) -> BatchHandle:
        """Begin a batch; it stays open until `close`, from here or from any process.

        The callbacks are jobs, each enqueued once: `on_failure` when a first job has failed,
        `on_success` when all have completed, `on_end` when all have ended, whatever came of them.
        """
        given = NewBatch.of(name, options, self._tenant)
        made = await self._ask(
            lambda on: Batches(self.store).open(
                on, given.tenant, given.name, given.callbacks, given.meta, by=self._by
            ),
            again=False,
        )
        return BatchHandle(self, str(made), given.tenant)

    def batch(
        self, name: str | None = None, **options: Unpack[BatchOptions]
    ) -> AbstractAsyncContextManager[BatchHandle]:
        """A batch that is closed at the end of the block.

            async with app.batch("import", on_success=publish.prepare(42)) as batch:
                await batch.enqueue_many(index.prepare(page) for page in pages)

        Its jobs run as soon as they are added. If the block raises, the batch is cancelled: what
        has not run will not, and `on_success` never comes, since it is not what was to be in it.
        """
        return self._block(self.open_batch(name, **options))

    @asynccontextmanager
    async def _block(self, opening: Awaitable[BatchHandle]) -> AsyncIterator[BatchHandle]:
        batch = await opening
        try:
            yield batch
        except BaseException:
            await self._give_up(batch)
            raise
        await batch.close()

    async def _give_up(self, batch: BatchHandle) -> None:
        """What the block raised is what its caller must hear of, whatever comes of this."""
        try:
            await batch.cancel("batch_failed")
        except Exception as error:
            logger.warning("Batch %s could not be cancelled: %s", batch.id, error)

    async def batch_handle(self, batch: BatchId) -> BatchHandle:
        """A batch to add to, by its id, or by a job of it.

            batch = await app.batch_handle(ctx.job)        # in a handler: the batch of this job
            await batch.enqueue(index, page)

        A job that runs may add to its own batch even when that is closed: it cannot be finished
        before the job is.
        """
        status = await self.get_batch(batch)
        adder = batch.id if isinstance(batch, Job) and batch.batch else None
        return BatchHandle(self, status.id, status.tenant, adder)

    async def get_batch(self, batch: BatchId) -> BatchStatus:
        """A batch as it is now; in a callback's handler by `ctx.job`."""
        batch_id = batch_id_of(batch)
        key = batch_key(batch_id)
        rows = await self._ask(lambda on: Batches(self.store).get(on, [key]))
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
        """Batches, newest first. Pass `page.after` as `after` for the next page."""
        whole("limit", limit, 1, LONGEST_PAGE)
        if state is not None and state not in STATES:
            raise BadArgument("state", state, f"one of {', '.join(STATES)}")
        if self._tenant is not None:
            tenant = self._tenant.named(tenant)
        scope.texts(tenant=tenant, name=name)
        start = batch_key(after) if after else None
        rows = await self._ask(
            lambda on: Batches(self.store).page(on, tenant, name, state, start, limit)
        )
        found = tuple(status_from(row) for row in rows)
        return BatchPage(found, found[-1].id if len(found) == limit else None)

    async def wait_batch(
        self, batch: BatchId, timeout: float | timedelta | None = None
    ) -> BatchStatus:
        """Wait until a batch is finished; raises BatchTimeout, never for what its jobs came to."""
        batch_id = batch_id_of(batch)
        key = batch_key(batch_id)

        async def look() -> bool:
            over = await self._ask(lambda on: Batches(self.store).is_finished(on, key))
            if over is None:
                raise BatchNotFound(batch_id)
            return over

        seconds = seconds_of(timeout)
        is_over = await self._until(bool, look, seconds)
        status = await self.get_batch(batch_id)
        if not is_over and not status.is_finished:
            why = await self._why(lambda: self.why_batch(batch_id), f"batch {batch_id}")
            raise BatchTimeout(status.id, status.state, status.pending, seconds or 0.0, why)
        return status

    async def why_batch(self, batch: BatchId) -> str:
        """Why a batch is not finished: some of its jobs, each with what it waits for."""
        key = batch_key(batch_id_of(batch))
        if await self._ask(lambda on: Batches(self.store).is_finished(on, key)) is None:
            raise BatchNotFound(str(key))
        return await self._why_jobs(batch=key)

    async def close_batch(self, batch: BatchId, *, by: str | None = None) -> None:
        """Let nobody but its own jobs add to a batch; it is finished when nothing pends."""
        await self._close(batch, noted=True, by=by)

    async def cancel_batch(
        self, batch: BatchId, reason: str = "requested", *, by: str | None = None
    ) -> int:
        """Close a batch and end all that pends, running or not: how many jobs.

        `on_end` comes all the same, `on_success` never.
        """
        return [number async for number in self.cancelling_batch(batch, reason, by=by)][-1]

    async def cancelling_batch(
        self, batch: BatchId, reason: str = "requested", *, by: str | None = None
    ) -> AsyncIterator[int]:
        """As `cancel_batch`, with how many it has come to after each piece of 500 jobs."""
        key = await self._close(batch, reason, noted=True, by=by)
        number = after = 0
        while True:
            piece = await self._ask(
                partial(
                    Batches(self.store).cancel,
                    batch=key,
                    after=after,
                    limit=MAX_JOBS_PER_CANCEL,
                    reason=reason,
                )
            )
            number, after = number + piece.cancelled, piece.last
            yield number
            if piece.found < MAX_JOBS_PER_CANCEL:
                return

    async def retry_batch(
        self, batch: BatchId, *, rate: float | str | None = None, by: str | None = None
    ) -> Redriven:
        """Run again those jobs of a batch that have failed; what it came to, as of `redrive`.

        A finished batch goes on then; if all completes this time, `on_success` comes.
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
        """Close a batch; with a reason it is given up. What its own handle does is no news."""
        batch_id = batch_id_of(batch)
        key, actor = batch_key(batch_id), self._actor(by)
        is_there = await self._ask(
            lambda on: Batches(self.store).close(on, key, reason, noted=noted, by=actor)
        )
        if not is_there:
            raise BatchNotFound(batch_id)
        return key
