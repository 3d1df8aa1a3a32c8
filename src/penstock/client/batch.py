"""A batch as it is now, and a handle to add to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from penstock.client.enqueue import Enqueued
from penstock.errors import BadArgument, BatchNotFound, JobNotFound
from penstock.job import Job
from penstock.store import key_of
from penstock.store.enqueue import Links
from penstock.tasks import Request, Task
from penstock.tasks.registry import not_a_task

if TYPE_CHECKING:
    from penstock.client.batches import BatchCalls
    from penstock.client.failed import Redriven

P = ParamSpec("P")
T = TypeVar("T")

BatchState = Literal["open", "running", "finished"]

# A statement with more takes long to send, and holds the batch open for as long.
AT_ONCE: Final = 10_000
# With a lower rate nobody can say how long it takes.
SLOWEST: Final = 1e-5


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
            raise TypeError(not_a_task("enqueue", task))
        [enqueued] = await self.enqueue_many([task.prepare(*args, **kwargs)])
        return enqueued

    async def enqueue_many(self, requests: Iterable[Request[T]]) -> list[Enqueued[T]]:
        """Add many jobs; the answers come in the same order.

        They go in pieces of 10,000, each of them stored whole or not at all.
        """
        enqueued: list[Enqueued[T]] = []
        given = iter(requests)
        while piece := list(islice(given, AT_ONCE)):
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
    plain["eta"] = 0.0 if not pending else pending / rate if rate > SLOWEST else None
    plain["state"] = _state(row["closed_at"], row["finished_at"])
    return BatchStatus(**plain | {"id": str(row["id"])})


def _state(closed_at: datetime | None, finished_at: datetime | None) -> BatchState:
    if closed_at is None:
        return "open"
    return "running" if finished_at is None else "finished"
