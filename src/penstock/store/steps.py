"""The statements of durable steps, and of events that jobs wait for."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from penstock.store.connection import Executor
from penstock.store.store import Store


class Saved(NamedTuple):
    """The result of one step, as JSON."""

    kind: str
    name: str
    result: str


class Steps:
    """What an attempt keeps for those after it, on whatever connection the caller has."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, on: Executor, job: int, token: UUID) -> list[Saved]:
        rows = await on.fetch(self._store.statement("read_steps"), job, token)
        return [Saved(row["kind"], row["name"], row["result"]) for row in rows]

    async def save(self, on: Executor, job: int, token: UUID, saved: Saved) -> float:
        """Keep a result; how many seconds ago the step was first kept."""
        return float(await on.fetchval(self._store.call("save_step"), job, token, *saved))

    async def recall(
        self, on: Executor, job: int, token: UUID, name: str, key: bytes
    ) -> str | None:
        """The result that a step had for a key, which becomes this step's; None if none is kept."""
        sql = self._store.statement("recall_step")
        result: str | None = await on.fetchval(sql, job, token, name, key)
        return result

    async def share(
        self, on: Executor, job: int, token: UUID, saved: Saved, key: bytes, ttl: float
    ) -> None:
        """Keep a result, for this job and for others that have the key."""
        sql = self._store.call("share_step")
        await on.fetch(sql, job, token, saved.name, saved.result, key, ttl)

    async def sleep(
        self, on: Executor, job: int, token: UUID, name: str, until: datetime | None, seconds: float
    ) -> float:
        """How many seconds are left of a sleep."""
        sql = self._store.call("sleep")
        return float(await on.fetchval(sql, job, token, name, until, seconds))

    async def sweep_cache(
        self, on: Executor, size: int, limit: int, excess: int | None
    ) -> tuple[int, int]:
        """Remove results that have expired, and the oldest beyond a size, of which the bytes may
        be known: how many at most, and how many bytes are left to remove."""
        row = await on.fetchrow(self._store.call("sweep_cache"), size, limit, excess)
        assert row is not None
        return max(row["expired"], row["evicted"]), row["excess"]

    async def sweep(self, on: Executor, after: int, limit: int) -> tuple[int, int | None]:
        """Remove steps of jobs that are gone, from one job on: how many, and where to go on."""
        row = await on.fetchrow(self._store.call("sweep_steps"), after, limit)
        assert row is not None
        return row["swept"], row["upto"]


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
        row = await on.fetchrow(self._store.call("wake_due_waits"), limit, after)
        assert row is not None
        return Woken(row["woken"], row["upto"], row["next_in"])

    async def sweep(self, on: Executor, after: int, limit: int) -> tuple[int, int | None]:
        """Remove old events, and waits of ended jobs from one on: how many, and where to go on."""
        row = await on.fetchrow(self._store.call("sweep_events"), after, limit)
        assert row is not None
        return row["events"], row["upto"]
