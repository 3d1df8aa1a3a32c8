"""Read the state of the queue as one tenant, under row level security."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import JobNotFound
from penstock.insights.insights import Insights
from penstock.insights.job import JobInsight, place_from, timeline_of
from penstock.job import Job
from penstock.store import key_of


class TenantInsights(Insights):
    """Insights into the jobs of one tenant.

    Only the owner of the schema can see why a job waits and how late it is, so these are left out.
    """

    async def lateness(self, jobs: Sequence[Job]) -> dict[str, float]:
        return {}

    async def job(self, job_id: str) -> JobInsight:
        key = key_of(job_id)
        jobs = await self._store.get(self._on, [key])
        if not jobs:
            raise JobNotFound(job_id)
        [job] = jobs
        place = place_from(await self._queries.own_place(self._on, key))
        return JobInsight(
            job=job,
            place=place,
            turn=None,
            waits=(),
            timeline=timeline_of(job),
            steps=await self._steps(key),
            holder=await self._holder(job),
        )
