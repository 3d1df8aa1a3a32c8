"""A fair queue, in which tenants take turns."""

from __future__ import annotations

from benchmarks.before_after.adapters.base.queue import QUEUE, Queue, tenants
from penstock import Penstock


class Tenants(Queue):
    tenants = tenants(1_000)

    async def arrange(self, app: Penstock) -> None:
        await app.set_queue(QUEUE, fair=True)


PEER = Tenants()
