"""Puts claimed jobs into the lanes they belong in: their limit is newer than they are."""

from __future__ import annotations

from penstock.lifecycle import Health, Service
from penstock.store import Attempt, Pool, Store

FOR_EVER = 3600.0


class Mover(Service):
    """Jobs on their way to another lane of their queue. Counts as nothing for them."""

    name = "lanes"

    def __init__(self, pool: Pool, store: Store, health: Health) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._moving: list[tuple[Attempt, str]] = []

    def jobs(self) -> list[int]:
        return [attempt.id for attempt, _ in self._moving]

    def move(self, attempt: Attempt, lane: str) -> None:
        self._moving.append((attempt, lane))
        self.wake()

    async def tick(self) -> float:
        if moving := tuple(self._moving):
            await self._store.move(
                self._pool, [(attempt.id, attempt.token, lane) for attempt, lane in moving]
            )
            del self._moving[: len(moving)]
        return FOR_EVER
