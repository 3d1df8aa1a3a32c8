"""Enqueue jobs, and what the client answers about them."""

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
from penstock.store.enqueue import NO_LINKS, Links, Stored
from penstock.tasks import Request, Task
from penstock.tasks.registry import explain_not_a_task
from penstock.telemetry import JobsEnqueued

T_co = TypeVar("T_co", covariant=True)


class Enqueued(Struct, Generic[T_co], frozen=True):
    """A job that is durably stored; T is what its handler returns.

    `duplicate` says that nothing was added: its idempotency key, or its unique key, already
    belonged to this job. An enqueue whose answer was lost is repeated, and then the key may belong
    to what the call itself has stored: it counts as a duplicate, too.
    """

    id: str
    duplicate: bool = False


class JobStatus(Struct, frozen=True):
    """Where a job is and how far, in one small value."""

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
    """Some jobs, newest first, and what to pass as `after` for the next ones."""

    jobs: tuple[Job, ...]
    after: str | None


JobId: TypeAlias = str | Enqueued[Any] | Job | JobStatus


def id_of(job: JobId) -> str:
    """The id by which a job is named."""
    if isinstance(job, str):
        return job
    if isinstance(job, Enqueued | Job | JobStatus):
        return job.id
    raise TypeError(f"A job is named by its id, a text, or by what enqueue gave; not by {job!r}.")


P = ParamSpec("P")
T = TypeVar("T")

_MAYBE_STORED: Final = (
    "The jobs may or may not have been stored: look for them before you enqueue again, or give an "
    "idempotency_key, then asking again is safe."
)
_SAFE_TO_REPEAT: Final = (
    "The jobs may or may not have been stored: enqueue them again with the same idempotency_key, "
    "which stores nothing twice."
)


class EnqueueCalls(Calls):
    """The calls that enqueue, and wake workers for what they have stored."""

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
        """Store one job durably. Options go with the task: `task.options(delay=60)`."""
        if not isinstance(task, Task):
            raise TypeError(explain_not_a_task("enqueue", task))
        [enqueued] = await self.enqueue_many([task.prepare(*args, **kwargs)])
        return enqueued

    async def enqueue_many(self, requests: Iterable[Request[T]]) -> list[Enqueued[T]]:
        """Store many jobs in one statement, all or none; the answers come in the same order.

        await app.enqueue_many(embed.prepare(page) for page in pages)
        """
        return await self._enqueue(requests, NO_LINKS)

    async def _enqueue(self, requests: Iterable[Request[T]], links: Links) -> list[Enqueued[T]]:
        if not (given := prepared(requests)):
            return []
        since = time.monotonic()
        notify = self._wake.rides_along(given)
        stored = await self._sent(given, lambda sent: self._store_surely(sent, notify, links))
        if not notify:
            self._wake.follow_up(given, stored, since)
        return enqueued_from(stored)

    @property
    def is_traced(self) -> bool:
        """Whether somebody follows jobs from their enqueue on, by the context of who enqueues."""
        return self._connector.tracing is not None and self._connector.tracing.active() is not None

    async def _sent(
        self, requests: Requests, store: Callable[[Requests], Awaitable[Stored]]
    ) -> Stored:
        """Store jobs, before the eyes of those who follow them."""
        if (tracing := self._connector.tracing and self._connector.tracing.active()) is None:
            stored = await store(requests)
        else:
            with tracing.sending(requests) as sending:
                stored = await store(sending.requests)
                sending.stored(stored.ids)
        if self._connector.events.has_subscribers(JobsEnqueued):
            self._tell(requests, stored)
        return stored

    def _tell(self, requests: Requests, stored: Stored) -> None:
        duplicates = stored.duplicates or repeat(False, len(stored.ids))
        new = Counter(
            (request.options.queue, request.task)
            for request, is_duplicate in zip(requests, duplicates, strict=True)
            if not is_duplicate
        )
        for (queue, task), count in new.items():
            self._connector.events.emit(JobsEnqueued(queue, task, count))

    async def _insert(self, on: Executor, requests: Sequence[Request[Any]], links: Links) -> Stored:
        """Store jobs in a transaction that others share, workers being told by its commit."""
        return await self.store.enqueue(on, requests, notify=True, durable=True, links=links)

    async def _store_surely(
        self, requests: Sequence[Request[Any]], notify: bool, links: Links
    ) -> Stored:
        """Store; if the answer is lost, ask again where idempotency keys make that safe."""
        is_safe = all(request.options.idempotency_key is not None for request in requests)
        try:
            return await self._ask(
                lambda on: self.store.enqueue(
                    on, requests, notify=notify, durable=True, links=links
                ),
                again=is_safe,
                doubt=_SAFE_TO_REPEAT if is_safe else _MAYBE_STORED,
            )
        except TenantMissing as error:
            raise TenantMissing(tenant_of(requests)) from error.__cause__


def enqueued_from(stored: Stored) -> list[Enqueued[Any]]:
    """What was stored, as callers get it."""
    duplicates = stored.duplicates or repeat(False, len(stored.ids))
    return [
        Enqueued(str(key), duplicate) for key, duplicate in zip(stored.ids, duplicates, strict=True)
    ]


def tenant_of(requests: Sequence[Request[Any]]) -> str | None:
    """The first tenant that requests name themselves."""
    return next((each.options.tenant for each in requests if each.options.tenant), None)


def prepared(requests: Any) -> list[Request[Any]]:
    """Requests, all of them; what a slip gives instead is named."""
    if isinstance(requests, Request):
        raise TypeError("One request is not many: put it in a list, or enqueue its task.")
    if not isinstance(requests, Iterable) or isinstance(requests, str | Task):
        raise TypeError(_not_requests(requests))
    given = list(requests)
    for each in given:
        if not isinstance(each, Request):
            raise TypeError(_not_requests(each))
    return given


def _not_requests(given: Any) -> str:
    told = "Jobs are enqueued in bulk as requests, made with task.prepare(…)"
    if isinstance(given, Task):
        return f"{told}: write {given.__name__}.prepare(…) with the arguments of each job."
    if inspect.iscoroutine(given):
        given.close()  # Otherwise Python warns that nobody has awaited it.
        return f"{told}; {given.__name__}(…) is called here: write {given.__name__}.prepare(…)."
    return f"{told}; not {given!r}."
