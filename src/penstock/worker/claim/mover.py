"""Moves claimed jobs to the lane that they belong in, because a limit is newer than they are."""

from __future__ import annotations

from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import ClaimedJob, Pool, Store

IDLE_PAUSE_S = 3600.0


class Mover(Service):
    """Jobs on their way to another lane of their queue. This counts as no attempt."""

    name = "lanes"

    def __init__(self, pool: Pool, store: Store, health: DatabaseHealth) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._moving: list[tuple[ClaimedJob, str]] = []

    def jobs(self) -> list[int]:
        return [job.id for job, _ in self._moving]

    def move(self, job: ClaimedJob, lane: str) -> None:
        self._moving.append((job, lane))
        self.wake()

    async def tick(self) -> float:
        if moving := tuple(self._moving):
            await self._store.move_to_lanes(
                self._pool, [(job.id, job.token, lane) for job, lane in moving]
            )
            del self._moving[: len(moving)]
        return IDLE_PAUSE_S
