"""Moves claimed jobs to their proper lane, after a limit was set that their lane lacks."""

from __future__ import annotations

from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import ClaimedJob, Pool, Store

IDLE_PAUSE_S = 3600.0


class Mover(Service):
    """Moves jobs to another lane of their queue. A move does not count as an attempt."""

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
