"""Limits that hold nothing back: what is measured is that somebody counts.

One for the whole queue, at once and in a second, and one for each tenant.
"""

from __future__ import annotations

from benchmarks.before_after.adapters.base.queue import QUEUE, Queue, tenants
from penstock import Penstock

PLENTY = 1_000_000
SLOTS = 100


class Limits(Queue):
    tenants = tenants(100)

    async def arrange(self, app: Penstock) -> None:
        await app.set_queue(QUEUE, fair=True)
        await app.set_limit(f"queue:{QUEUE}", slots=PLENTY, rate=PLENTY, burst=PLENTY)
        await app.set_limit(f"lane:{QUEUE}:*", slots=SLOTS)


PEER = Limits()
