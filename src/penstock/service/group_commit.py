"""Single enqueues that come at the same time, stored together.

While one statement is under way the next requests gather, so a quiet server stores each at once
and a busy one many in one commit. Each caller gets an answer of its own: one that the database
refuses is found by halving, and the others are stored without it.
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
# So many that wait are not left to wait for the statement before them: another begins beside it.
MANY_WAITING: Final = 16
MAX_CONCURRENT_FLUSHES: Final = 2
# Of these errors the database is the cause, not one of the requests.
DATABASE_FAULTS: Final = (
    *(DatabaseLost, DatabaseReadOnly, DatabaseExhausted, DatabaseBusy, DatabaseDenied),
    *(SchemaError, NotAllowed),
)


class _WaitingRequest(NamedTuple):
    request: Request[Any]
    answer: asyncio.Future[Enqueued[Any]]


class _TenantBuffer(Struct):
    """What one tenant's callers wait for, and how many statements are under way for them."""

    waiting: list[_WaitingRequest] = []
    flushes: int = 0

    @property
    def wants_flush(self) -> bool:
        return self.flushes == 0 or (
            len(self.waiting) >= MANY_WAITING and self.flushes < MAX_CONCURRENT_FLUSHES
        )


class GroupCommit:
    """Takes requests one by one and stores them many at once, those of each tenant apart.

    How many can wait is bounded by how many requests a server lets in at once.
    """

    def __init__(self, client_of: Callable[[str | None], Client]) -> None:
        self._client_of = client_of
        self._lanes: dict[str | None, _TenantBuffer] = {}
        self._flushes: set[asyncio.Task[None]] = set()

    async def enqueue(self, request: Request[Any], tenant: str | None) -> Enqueued[Any]:
        """Store a job durably. One whose caller is cancelled meanwhile may be stored or not."""
        client = self._client_of(tenant)
        # A trace goes through the task that enqueues; a shared statement would mix them up.
        if _may_wait_for_others(request) or client.is_traced:
            [made] = await client.enqueue_many([request])
            return made
        answer: asyncio.Future[Enqueued[Any]] = asyncio.get_running_loop().create_future()
        lane = self._lanes.setdefault(tenant, _TenantBuffer())
        lane.waiting.append(_WaitingRequest(request, answer))
        if lane.wants_flush:
            lane.flushes += 1
            flush = asyncio.create_task(self._flush(tenant, lane), name="penstock inlet")
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        return await answer

    async def drained(self) -> None:
        """Wait until all that came is answered."""
        while self._flushes:
            await asyncio.wait(self._flushes)

    async def _flush(self, tenant: str | None, lane: _TenantBuffer) -> None:
        try:
            while some := lane.waiting[:MAX_BATCH_SIZE]:
                del lane.waiting[:MAX_BATCH_SIZE]
                await self._store(tenant, [one for one in some if not one.answer.done()])
        finally:
            lane.flushes -= 1
            if not lane.flushes:
                del self._lanes[tenant]

    async def _store(self, tenant: str | None, some: Sequence[_WaitingRequest]) -> None:
        if not some:
            return
        try:
            made = await self._client_of(tenant).enqueue_many([one.request for one in some])
        except Exception as error:
            if len(some) > 1 and not isinstance(error, DATABASE_FAULTS):
                middle = len(some) // 2
                await self._store(tenant, some[:middle])
                await self._store(tenant, some[middle:])
                return
            for one in some:
                if not one.answer.done():
                    one.answer.set_exception(error)
        else:
            for one, job in zip(some, made, strict=True):
                if not one.answer.done():
                    one.answer.set_result(job)


def _may_wait_for_others(request: Request[Any]) -> bool:
    """Whether somebody's open transaction may hold up its insert: then it goes alone."""
    options = request.options
    return options.idempotency_key is not None or options.unique is not None
