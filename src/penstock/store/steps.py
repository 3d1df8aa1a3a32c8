"""Run the statements of durable steps, and of events that jobs wait for."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from penstock.store.connection import Executor
from penstock.store.store import Store


class Saved(NamedTuple):
    """A saved step; its result is JSON."""

    kind: str
    name: str
    result: str


class Steps:
    """Save and read the steps of a job, on the connection of the caller.

    Steps that an attempt saves are skipped by later attempts of the job.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, on: Executor, job: int, token: UUID) -> list[Saved]:
        rows = await on.fetch(self._store.statement("read_steps"), job, token)
        return [Saved(row["kind"], row["name"], row["result"]) for row in rows]

    async def save(self, on: Executor, job: int, token: UUID, saved: Saved) -> float:
        """Save a step. Return how many seconds ago it was first saved."""
        return float(await on.fetchval(self._store.call("save_step"), job, token, *saved))

    async def recall(
        self, on: Executor, job: int, token: UUID, name: str, key: bytes
    ) -> str | None:
        """Look up the cached result for a key, and save it as the result of this step.

        Return None if no result is cached.
        """
        sql = self._store.statement("recall_step")
        result: str | None = await on.fetchval(sql, job, token, name, key)
        return result

    async def share(
        self, on: Executor, job: int, token: UUID, saved: Saved, key: bytes, ttl: float
    ) -> None:
        """Save a step, and cache its result under a key for `ttl` seconds, for other jobs."""
        sql = self._store.call("share_step")
        await on.fetch(sql, job, token, saved.name, saved.result, key, ttl)

    async def sleep(
        self, on: Executor, job: int, token: UUID, name: str, until: datetime | None, seconds: float
    ) -> float:
        """Begin a sleep, or continue that of an earlier attempt. Return the remaining seconds."""
        sql = self._store.call("sleep")
        return float(await on.fetchval(sql, job, token, name, until, seconds))

    async def sweep_cache(
        self, on: Executor, size: int, limit: int, excess: int | None
    ) -> tuple[int, int]:
        """Remove expired results from the cache, and the least recently used above `size` bytes.

        At most `limit` results of each kind are removed. Return the larger of the two numbers of
        removed results, and the bytes by which the cache is still too big. A caller that knows this
        number of bytes passes it as `excess`, because computing it adds up the sizes of all
        results.
        """
        row = await on.fetchrow(self._store.call("sweep_cache"), size, limit, excess)
        assert row is not None
        return max(row["expired"], row["evicted"]), row["excess"]

    async def sweep(self, on: Executor, after: int, limit: int) -> tuple[int, int | None]:
        """Remove steps of jobs that no longer exist.

        Return how many steps were removed, and the job after which to continue, or None at the end.
        """
        row = await on.fetchrow(self._store.call("sweep_steps"), after, limit)
        assert row is not None
        return row["swept"], row["upto"]


Answer = Literal["got", "timeout", "wait", "busy"]


class StoredEvent(NamedTuple):
    """The id of an event, and how many waiting jobs it woke."""

    id: int
    woken: int


class AwaitedEvent(NamedTuple):
    """The answer to a job that waits for an event.

    `result` is JSON and is also saved as a step. It is None unless the answer is `got` or
    `timeout`.
    """

    answer: Answer
    result: str | None


class Woken(NamedTuple):
    """How many jobs were woken, and how to continue.

    The next call continues after the event `upto`, or from the start if that is None. It is due in
    `next_in` seconds, or None if no wait has a timeout.
    """

    woken: int
    upto: int | None
    next_in: float | None


class EventStatements:
    """Run statements for events and their waiters on the connection of the caller."""

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
    ) -> StoredEvent:
        sql = self._store.statement("send_event")
        row = await on.fetchrow(sql, name, payload, tenant, keep, options, by)
        assert row is not None
        return StoredEvent(row["id"], row["woken"])

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
    ) -> AwaitedEvent:
        """Return the first event of this name after the event `after`, or begin to wait for one."""
        sql = self._store.statement("await_event")
        row = await on.fetchrow(sql, job, token, step, name, after, timeout)
        assert row is not None
        return AwaitedEvent(row["answer"], row["result"])

    async def wake(self, on: Executor, limit: int, after: int = 0) -> Woken:
        """Wake jobs whose event was sent or whose wait has timed out, up to `limit` of each.

        Only events after the event `after` are considered.
        """
        row = await on.fetchrow(self._store.call("wake_due_waits"), limit, after)
        assert row is not None
        return Woken(row["woken"], row["upto"], row["next_in"])

    async def sweep(self, on: Executor, after: int, limit: int) -> tuple[int, int | None]:
        """Remove expired events, and the waits of jobs that have ended.

        Return how many events were removed, and the job after which to continue, or None at the
        end.
        """
        row = await on.fetchrow(self._store.call("sweep_events"), after, limit)
        assert row is not None
        return row["events"], row["upto"]
