"""What the measured queue is like: whose jobs are in it, and what limits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.ground import QUEUE, Ground
from penstock.worker.limits.slots import DEFAULT_SLOTS

# Far above what is ever reached: what is measured is that somebody counts.
PLENTY = 1_000_000


@dataclass(frozen=True, slots=True)
class Limit:
    """How many jobs of a key may run at once, and how many may start in a second."""

    key: str
    slots: int | None = None
    rate: float | None = None


# The whole queue, each tenant by itself, and a rate: none of them holds a job back.
LOOSE = (
    Limit(f"queue:{QUEUE}", slots=PLENTY, rate=PLENTY),
    Limit(f"lane:{QUEUE}:*", slots=DEFAULT_SLOTS),
)
# As many as the worker has slots: what it claims ahead has to wait.
TIGHT = (Limit(f"queue:{QUEUE}", slots=DEFAULT_SLOTS),)


@dataclass(frozen=True, slots=True)
class Setup:
    """A plain queue, or a fair one with so many tenants; with limits or without."""

    tenants: int = 0
    limits: Sequence[Limit] = ()

    async def arrange(self, ground: Ground) -> None:
        """Set the queue up like this, and no otherwise."""
        app = ground.app
        await app.set_queue(QUEUE, fair=bool(self.tenants))
        for limit in (*LOOSE, *TIGHT):
            await app.remove_limit(limit.key)
        for limit in self.limits:
            await app.set_limit(limit.key, slots=limit.slots, rate=limit.rate, burst=limit.rate)


def names(tenants: int, among: int) -> list[str]:
    """Some tenants, spread evenly over those of a larger queue."""
    return [f"tenant-{number * among // tenants:06}" for number in range(tenants)]
