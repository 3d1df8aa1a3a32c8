"""Enqueue jobs, and define the values that the client returns for jobs."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar

from msgspec import Struct

from penstock.connect.connector import Connector
from penstock.connect.scope import Calls, TenantScope
from penstock.connect.tracing import Requests
from penstock.connect.wake import Wake
from penstock.errors import TenantMissing
from penstock.job import FINAL, Job, State
from penstock.store import Executor
from penstock.store.enqueue import NO_LINKS, JobLinks, Stored
from penstock.tasks import Request, Task
from penstock.tasks.registry import explain_not_a_task
from penstock.telemetry import JobsEnqueued

T_co = TypeVar("T_co", covariant=True)


class Enqueued(Struct, Generic[T_co], frozen=True):
    """A job that is durably stored. T is the type of its handler's result.

    `duplicate` is True if no job was added, because this job already has the idempotency key or the
    unique key. If the answer to an enqueue is lost, the call is repeated. It then may find the job
    that it has stored itself, which also counts as a duplicate.
    """

    id: str
    duplicate: bool = False


class JobStatus(Struct, frozen=True):
    """The state and the progress of a job, without its other fields."""

    id: str
    state: State
    reason: str | None = None
    done: float | None = None
    total: float | None = None
    message: str | None = None

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


class Page(Struct, frozen=True):
    """A page of jobs, newest first.

    Pass `after` to get the next page. It is None on the last one.
    """

    jobs: tuple[Job, ...]
    after: str | None


JobId: TypeAlias = str | Enqueued[Any] | Job | JobStatus


def id_of(job: JobId) -> str:
    """Return the id of a job. Raises TypeError for a value that does not identify a job."""
    if isinstance(job, str):
        return job
    if isinstance(job, Enqueued | Job | JobStatus):
        return job.id
    raise TypeError(f"Pass the id of a job as text, or what enqueue returned, not {job!r}.")


P = ParamSpec("P")
T = TypeVar("T")

_MAYBE_STORED: Final = (
    "The jobs may or may not have been stored. Look for them before you enqueue them again. Jobs "
    "with an idempotency_key can be enqueued again safely."
)
_SAFE_TO_REPEAT: Final = (
    "The jobs may or may not have been stored. Enqueue them again with the same idempotency_key: "
    "no job is stored twice."
)


class EnqueueCalls(Calls):
    """The calls that enqueue jobs and wake workers for them."""

    def __init__(
        self,
        connector: Connector,
        connection: Executor | None = None,
        *,
        wake: Wake | None = None,
        tenant: TenantScope | None = None,
        by: str | None = None,
    ) -> None:
        super().__init__(connector, connection, tenant=tenant, by=by)
        self._wake = wake or Wake(connector)

    async def enqueue(self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[T]:
        """Store one job durably. To set options, pass `task.options(delay=60)` as the task."""
        if not isinstance(task, Task):
            raise TypeError(explain_not_a_task("enqueue", task))
        [enqueued] = await self.enqueue_many([task.prepare(*args, **kwargs)])
        return enqueued

    async def enqueue_many(self, requests: Iterable[Request[T]]) -> list[Enqueued[T]]:
        """Store many jobs in one statement, all or none. The results are in the same order.

        await app.enqueue_many(embed.prepare(page) for page in pages)
        """
        return await self._enqueue(requests, NO_LINKS)

    async def _enqueue(self, requests: Iterable[Request[T]], links: JobLinks) -> list[Enqueued[T]]:
        if not (checked := check_requests(requests)):
            return []
        since = time.monotonic()
        notify = self._wake.should_notify_inline(checked)
        stored = await self._store_traced(
            checked, lambda traced: self._store_with_retry(traced, notify, links)
        )
        if not notify:
            self._wake.notify_later(checked, stored, since)
        return to_enqueued(stored)

    @property
    def is_traced(self) -> bool:
        """Whether enqueues are traced."""
        return self._connector.tracing is not None and self._connector.tracing.active() is not None

    async def _store_traced(
        self, requests: Requests, store: Callable[[Requests], Awaitable[Stored]]
    ) -> Stored:
        """Store jobs, traced if the app has tracing, and emit JobsEnqueued."""
        if (tracing := self._connector.tracing and self._connector.tracing.active()) is None:
            stored = await store(requests)
        else:
            with tracing.sending(requests) as sending:
                stored = await store(sending.requests)
                sending.stored(stored.ids)
        if self._connector.events.has_subscribers(JobsEnqueued):
            self._emit_enqueued(requests, stored)
        return stored

    def _emit_enqueued(self, requests: Requests, stored: Stored) -> None:
        duplicates = stored.duplicates or repeat(False, len(stored.ids))
        new = Counter(
            (request.options.queue, request.task)
            for request, is_duplicate in zip(requests, duplicates, strict=True)
            if not is_duplicate
        )
        for (queue, task), count in new.items():
            self._connector.events.emit(JobsEnqueued(queue, task, count))

    async def _insert(
        self, on: Executor, requests: Sequence[Request[Any]], links: JobLinks
    ) -> Stored:
        """Store jobs in a transaction with other statements. Its commit wakes workers."""
        return await self.store.enqueue(on, requests, notify=True, durable=True, links=links)

    async def _store_with_retry(
        self, requests: Sequence[Request[Any]], notify: bool, links: JobLinks
    ) -> Stored:
        """Store jobs. If the connection breaks, retry if all jobs have idempotency keys."""
        is_safe = all(request.options.idempotency_key is not None for request in requests)
        try:
            return await self._execute(
                lambda on: self.store.enqueue(
                    on, requests, notify=notify, durable=True, links=links
                ),
                retry=is_safe,
                doubt=_SAFE_TO_REPEAT if is_safe else _MAYBE_STORED,
            )
        except TenantMissing as error:
            raise TenantMissing(tenant_of(requests)) from error.__cause__


def to_enqueued(stored: Stored) -> list[Enqueued[Any]]:
    """Convert the result of an enqueue statement to the values that the client returns."""
    duplicates = stored.duplicates or repeat(False, len(stored.ids))
    return [
        Enqueued(str(key), duplicate) for key, duplicate in zip(stored.ids, duplicates, strict=True)
    ]


def tenant_of(requests: Sequence[Request[Any]]) -> str | None:
    """Return the first tenant that is set in requests, or None."""
    tenants = (request.options.tenant for request in requests)
    return next(filter(None, tenants), None)


def check_requests(requests: Any) -> list[Request[Any]]:
    """Return the requests as a list.

    Raises TypeError for other values, with a message that says how to make requests.
    """
    if isinstance(requests, Request):
        raise TypeError("This call takes several requests. Put the one request in a list.")
    if not isinstance(requests, Iterable) or isinstance(requests, str | Task):
        raise TypeError(_not_requests(requests))
    checked = list(requests)
    for request in checked:
        if not isinstance(request, Request):
            raise TypeError(_not_requests(request))
    return checked


def _not_requests(value: Any) -> str:
    rule = "Jobs are enqueued in bulk as requests, made with task.prepare(…)"
    if isinstance(value, Task):
        return f"{rule}: write {value.__name__}.prepare(…) with the arguments of each job."
    if inspect.iscoroutine(value):
        value.close()  # Otherwise Python warns that it was never awaited.
        return f"{rule}. Write {value.__name__}.prepare(…) instead of {value.__name__}(…)."
    return f"{rule}, not {value!r}."
