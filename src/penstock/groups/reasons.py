"""Why a job, a batch or a workflow has not ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from penstock.connect.enqueue import JobId, id_of
from penstock.connect.scope import CallExecutor, Calls
from penstock.connect.wait import LOOK_GRACE
from penstock.insights import Insights, TenantInsights
from penstock.job import Job
from penstock.store import errors, read_role_rights

logger = logging.getLogger("penstock")

# At most this many jobs of a batch or workflow are explained.
JOBS_TOLD: Final = 3
JOBS_LOOKED_AT: Final = 100
# Blocked jobs wait for other jobs, so they are explained only if no other job is left.
_ASKED: Final = (["ready", "scheduled", "running"], ["blocked"])


class ReasonCalls(Calls):
    """Calls that say in sentences why something has not ended; they return "" if it has."""

    async def why(self, job: JobId) -> str:
        """Why a job has not ended: what it waits for, or who runs it."""
        found = await self._ask(lambda on: read_role_rights(on, self.store.schema))
        # Row level security hides from a tenant what its jobs wait for.
        is_owner = self._tenant is None and found is not None and not found.is_confined
        look = Insights if is_owner else TenantInsights
        return (await look(self.store, CallExecutor(self)).job(id_of(job))).why

    async def _why_jobs(self, **within: int) -> str:
        return " ".join([await self._told_of(job) for job in _different(await self._left(within))])

    async def _left(self, within: dict[str, int]) -> list[Job]:
        for states in _ASKED:
            if jobs := await self._in(states, within):
                return jobs
        return []

    async def _in(self, states: list[str], within: dict[str, int]) -> list[Job]:
        filters = [states, *[None] * 6, JOBS_LOOKED_AT]
        return await self._ask(lambda on: self.store.list_jobs(on, *filters, **within))

    async def _told_of(self, job: Job) -> str:
        return f"Job {job.id} ({job.task}) is {job.state}: {await self.why(job.id)}"

    async def _why(self, ask: Callable[[], Awaitable[str]], of: str) -> str:
        """A reason; empty if it is not known in time."""
        if self._connection is not None:
            return ""  # An error would end the caller's transaction.
        cancels = errors.cancels()
        try:
            async with asyncio.timeout(LOOK_GRACE):
                return await ask()
        except Exception as error:
            errors.raise_if_cancelled(error, cancels)
            logger.debug("Why %s has not ended could not be asked: %r", of, error)
            return ""


def _different(jobs: Iterable[Job]) -> list[Job]:
    """A few jobs that differ in their state or their queue."""
    found = {(job.state, job.queue): job for job in jobs}
    return list(found.values())[:JOBS_TOLD]
