"""Explain why a job, a batch or a workflow has not ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from penstock.connect.enqueue import JobId, id_of
from penstock.connect.scope import CallExecutor, Calls
from penstock.connect.wait import ANSWER_GRACE_S
from penstock.insights import Insights, TenantInsights
from penstock.job import Job
from penstock.store import errors, read_role_rights

logger = logging.getLogger("penstock")

# At most this many jobs of a batch or workflow are explained.
MAX_JOBS_EXPLAINED: Final = 3
# Those are chosen among this many.
MAX_JOBS_READ: Final = 100
# Blocked jobs wait for other jobs, so they are explained only if no other job is left.
_STATES_IN_ORDER: Final = (["ready", "scheduled", "running"], ["blocked"])


class ReasonCalls(Calls):
    """The calls that explain why a job, batch or workflow has not ended.

    They return "" for a job, batch or workflow that has ended.
    """

    async def why(self, job: JobId) -> str:
        """Explain why a job has not ended: what it waits for, or which worker runs it."""
        rights = await self._execute(lambda on: read_role_rights(on, self.store.schema))
        # Row level security hides from a tenant what its jobs wait for.
        is_owner = self._tenant is None and rights is not None and not rights.is_confined
        insights = Insights if is_owner else TenantInsights
        return (await insights(self.store, CallExecutor(self)).job(id_of(job))).why

    async def _why_jobs(self, **within: int) -> str:
        """Explain some unfinished jobs of a batch or workflow."""
        jobs = _distinct(await self._unfinished_jobs(within))
        return " ".join([await self._explain(job) for job in jobs])

    async def _unfinished_jobs(self, within: dict[str, int]) -> list[Job]:
        for states in _STATES_IN_ORDER:
            if jobs := await self._jobs_in(states, within):
                return jobs
        return []

    async def _jobs_in(self, states: list[str], within: dict[str, int]) -> list[Job]:
        filters = [states, *[None] * 6, MAX_JOBS_READ]
        return await self._execute(lambda on: self.store.list_jobs(on, *filters, **within))

    async def _explain(self, job: Job) -> str:
        return f"Job {job.id} ({job.task}) is {job.state}: {await self.why(job.id)}"

    async def _why(self, explain: Callable[[], Awaitable[str]], subject: str) -> str:
        """Return an explanation for an error message, or "" if there is none in time."""
        if self._connection is not None:
            return ""  # An error would end the caller's transaction.
        cancels = errors.cancels()
        try:
            async with asyncio.timeout(ANSWER_GRACE_S):
                return await explain()
        except Exception as error:
            errors.raise_if_cancelled(error, cancels)
            logger.debug("The reason why %s has not ended could not be read: %r", subject, error)
            return ""


def _distinct(jobs: Iterable[Job]) -> list[Job]:
    """Return a few jobs that differ in their state or their queue."""
    by_state_and_queue = {(job.state, job.queue): job for job in jobs}
    return list(by_state_and_queue.values())[:MAX_JOBS_EXPLAINED]
