"""Store the jobs of concurrent enqueue requests in one commit.

While a statement runs, the next requests are collected, so a quiet server stores each job at once
and a busy one stores many in one commit. Each caller gets its own answer. If the database refuses
a batch, the batch is halved until the request at fault is alone, and the others are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from penstock.app.client import Client
from penstock.connect.enqueue import Enqueued
from penstock.errors import (
    DatabaseBusy,
    DatabaseDenied,
    DatabaseExhausted,
    DatabaseLost,
    DatabaseReadOnly,
    NotAllowed,
    SchemaError,
)
from penstock.tasks import Request

MAX_BATCH_SIZE: Final = 500
# When this many requests wait, a second statement starts beside the running one.
MIN_WAITING_FOR_SECOND_FLUSH: Final = 16
MAX_CONCURRENT_FLUSHES: Final = 2
# The database causes these errors, not one of the requests, so halving would not help.
DATABASE_FAULTS: Final = (
    *(DatabaseLost, DatabaseReadOnly, DatabaseExhausted, DatabaseBusy, DatabaseDenied),
    *(SchemaError, NotAllowed),
)


class _WaitingRequest(NamedTuple):
    request: Request[Any]
    answer: asyncio.Future[Enqueued[Any]]


class _TenantBuffer(Struct):
    """The waiting requests of one tenant, and how many statements are storing the tenant's jobs."""

    waiting: list[_WaitingRequest] = []
    flushes: int = 0

    @property
    def wants_flush(self) -> bool:
        return self.flushes == 0 or (
            len(self.waiting) >= MIN_WAITING_FOR_SECOND_FLUSH
            and self.flushes < MAX_CONCURRENT_FLUSHES
        )


class GroupCommit:
    """Stores the requests of concurrent callers in batches, each with requests of one tenant.

    The server's limit on concurrent requests also limits how many requests wait for a batch.
    """

    def __init__(self, client_of: Callable[[str | None], Client]) -> None:
        self._client_of = client_of
        self._buffers: dict[str | None, _TenantBuffer] = {}
        self._flushes: set[asyncio.Task[None]] = set()

    async def enqueue(self, request: Request[Any], tenant: str | None) -> Enqueued[Any]:
        """Store a job durably.

        If the caller is cancelled meanwhile, nobody can tell whether the job is stored.
        """
        client = self._client_of(tenant)
        # A trace follows the task that enqueues; a shared statement would mix traces up.
        if _may_block(request) or client.is_traced:
            [job] = await client.enqueue_many([request])
            return job
        answer: asyncio.Future[Enqueued[Any]] = asyncio.get_running_loop().create_future()
        buffer = self._buffers.setdefault(tenant, _TenantBuffer())
        buffer.waiting.append(_WaitingRequest(request, answer))
        if buffer.wants_flush:
            buffer.flushes += 1
            flush = asyncio.create_task(self._flush(tenant, buffer), name="penstock group commit")
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        return await answer

    async def wait_until_empty(self) -> None:
        """Wait until every request has its answer."""
        while self._flushes:
            await asyncio.wait(self._flushes)

    async def _flush(self, tenant: str | None, buffer: _TenantBuffer) -> None:
        try:
            while batch := buffer.waiting[:MAX_BATCH_SIZE]:
                del buffer.waiting[:MAX_BATCH_SIZE]
                # The callers of some may have been cancelled.
                await self._store(tenant, [each for each in batch if not each.answer.done()])
        finally:
            buffer.flushes -= 1
            if not buffer.flushes:
                del self._buffers[tenant]

    async def _store(self, tenant: str | None, batch: Sequence[_WaitingRequest]) -> None:
        if not batch:
            return
        try:
            jobs = await self._client_of(tenant).enqueue_many([each.request for each in batch])
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, DATABASE_FAULTS):
                middle = len(batch) // 2
                await self._store(tenant, batch[:middle])
                await self._store(tenant, batch[middle:])
                return
            for each in batch:
                if not each.answer.done():
                    each.answer.set_exception(error)
        else:
            for each, job in zip(batch, jobs, strict=True):
                if not each.answer.done():
                    each.answer.set_result(job)


def _may_block(request: Request[Any]) -> bool:
    """Return whether another open transaction may block the insert of this job.

    Such a job is stored alone, so that it does not hold up the others of a batch.
    """
    options = request.options
    return options.idempotency_key is not None or options.unique is not None
