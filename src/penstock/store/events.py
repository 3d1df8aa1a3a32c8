"""The statements of events that jobs wait for."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple
from uuid import UUID

from penstock.store.pool import Executor
from penstock.store.store import Store

Answer = Literal["got", "timeout", "wait", "busy"]


class Sent(NamedTuple):
    """The number of an event, and how many jobs it woke at once."""

    id: int
    woken: int


class Awaited(NamedTuple):
    """What a job that waits for an event gets; the result, as JSON, is kept as a step."""

    answer: Answer
    result: str | None


class Woken(NamedTuple):
    """How many jobs were woken, after which event to go on, and in how many seconds to look."""

    woken: int
    upto: int | None
    next_in: float | None


class Events:
    """Events and those who wait for them, on whatever connection the caller has."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def send(
        self,
        on: Executor,
        name: str,
        payload: str,
        tenant: str,
        keep: float,
        options: str,
        *,
        by: str | None = None,
    ) -> Sent:
        sql = self._store.statement("send_event")
        row = await on.fetchrow(sql, name, payload, tenant, keep, options, by)
        assert row is not None
        return Sent(row["id"], row["woken"])

    async def list(self, on: Executor, *filters: Any) -> list[dict[str, Any]]:
        rows = await on.fetch(self._store.statement("list_events"), *filters)
        return [dict(row) for row in rows]

    async def wait(
        self,
        on: Executor,
        job: int,
        token: UUID,
        step: str,
        name: str,
        after: int,
        timeout: float | None,
    ) -> Awaited:
        """What there is for an attempt that waits for the first event after another."""
        sql = self._store.statement("await_event")
        row = await on.fetchrow(sql, job, token, step, name, after, timeout)
        assert row is not None
        return Awaited(row["answer"], row["result"])

    async def wake(self, on: Executor, limit: int, after: int = 0) -> Woken:
        """Wake jobs whose wait is over, for events after one: how many at most."""
        row = await on.fetchrow(self._store.call("wake_waits"), limit, after)
        assert row is not None
        return Woken(row["woken"], row["upto"], row["next_in"])

    async def sweep(self, on: Executor, after: int, limit: int) -> tuple[int, int | None]:
        """Remove old events, and waits of ended jobs from one on: how many, and where to go on."""
        row = await on.fetchrow(self._store.call("sweep_events"), after, limit)
        assert row is not None
        return row["events"], row["upto"]
