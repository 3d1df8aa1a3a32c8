"""The statements of durable steps."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from penstock.store.pool import Executor
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
