"""Warns of ready jobs in queues that no worker serves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from penstock.lifecycle import Health
from penstock.maintenance.chore import Chore
from penstock.store import Pool, Store
from penstock.wording import listed, span

logger = logging.getLogger("penstock.leader")

REPEAT_AFTER_S = 600.0


class UnservedQueues(Chore):
    """Looks for them now and then, and warns of each once in ten minutes."""

    name = "look for queues without a worker"

    def __init__(
        self, pool: Pool, store: Store, health: Health, leads: Callable[[], bool], every: float
    ) -> None:
        super().__init__(pool, store, health, leads, every)
        self._warned_at: dict[str, float] = {}

    async def work(self) -> int:
        unserved = await self._store.unserved(self._pool, self._every)
        now = time.monotonic()
        # A queue that has been served meanwhile is news again.
        self._warned_at = {
            queue: self._warned_at[queue] for queue, _ in unserved if queue in self._warned_at
        }
        news = [
            (queue, seconds)
            for queue, seconds in unserved
            if now - self._warned_at.get(queue, -REPEAT_AFTER_S) >= REPEAT_AFTER_S
        ]
        if news:
            self._warned_at |= {queue: now for queue, _ in news}
            logger.warning("%s", warning_of(news))
        return 0


def warning_of(unserved: Sequence[tuple[str, float]]) -> str:
    """Which queues have nobody, since when, and what to do. The one that waits longest is first."""
    first, seconds = unserved[0]
    if len(unserved) == 1:
        told = f"No worker serves the queue {first}, whose oldest job has been ready for"
    else:
        names = listed(queue for queue, _ in unserved)
        told = (
            f"No worker serves the queues {names}. The oldest job, of {first}, has been ready for"
        )
    return (
        f"{told} {span(seconds)}. Start a worker for it: `penstock work APP --queue {first}`; or "
        "name the queue among those of a worker that runs."
    )
