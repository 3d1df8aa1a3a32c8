"""Documents whose jobs ended without saying so of them: killed, exhausted, cancelled."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import Job
from penstock_apps.knowledge.store.documents import State
from penstock_apps.knowledge.workshop import Workshop

LOOKED_AT_ONCE = 500


async def reconcile(shop: Workshop, tenant: str, batch: str) -> None:
    """Say of the documents of a batch what came of their jobs."""
    while True:
        async with shop.shelves.of(tenant) as on:
            left = await shop.documents.unsettled(on, tenant, batch, LOOKED_AT_ONCE)
        if not await settle(shop, tenant, left):
            return


async def settle(shop: Workshop, tenant: str, jobs: Mapping[str, tuple[int, int]]) -> int:
    """Say of documents what came of their jobs, if these have ended; of how many."""
    number = 0
    for job_id, (document, version) in jobs.items():
        job = await shop.app.find(job_id)
        if job is None or job.is_final:
            state, reason, error = _told(job)
            async with shop.shelves.of(tenant) as on:
                await shop.documents.end(on, tenant, document, version, state, reason, error)
            number += 1
    return number


def _told(job: Job | None) -> tuple[State, str | None, str | None]:
    if job is None:
        return "failed", "lost", "Its job is not kept any more."
    error = f"{job.last_error.type}: {job.last_error.message}" if job.last_error else None
    return "cancelled" if job.state == "cancelled" else "failed", job.reason, error
