"""Find, list and change jobs, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from penstock.connect import scope
from penstock.connect.enqueue import JobId, JobStatus, Page, id_of
from penstock.errors import BadArgument, JobConflict, JobNotFound, Misuse
from penstock.groups.batches import BatchId, batch_id_of, batch_key
from penstock.groups.bulk import BulkCalls
from penstock.groups.workflows import WorkflowId, workflow_key
from penstock.job import Job, State
from penstock.store import key_of
from penstock.tasks import Task

MAX_STATES_PER_CALL = 1000
MAX_JOBS_PER_PAGE = 1000
# How many jobs one call scans for a text in their arguments.
MAX_JOBS_SCANNED = 10_000


class JobCalls(BulkCalls):
    """The calls that read and change single jobs."""

    # Read

    async def get(self, job: JobId) -> Job:
        """Return a job, live or final. Raises JobNotFound if it never existed or was deleted."""
        current = await self.find(job)
        if current is None:
            raise JobNotFound(id_of(job))
        return current

    async def find(self, job: JobId) -> Job | None:
        """Return a job, live or final, or None if it does not exist."""
        try:
            key = key_of(id_of(job))
        except JobNotFound:
            return None
        jobs = await self._execute(lambda on: self.store.get(on, [key]))
        return jobs[0] if jobs else None

    async def states(self, jobs: Sequence[JobId]) -> dict[str, JobStatus]:
        """Return state and progress of up to 1,000 jobs; those that do not exist are left out."""
        if len(jobs) > MAX_STATES_PER_CALL:
            raise BadArgument("jobs", len(jobs), f"at most {MAX_STATES_PER_CALL} ids in one call")
        keys = []
        for job in jobs:
            with suppress(JobNotFound):
                keys.append(key_of(id_of(job)))
        rows = await self._execute(lambda on: self.store.states(on, keys))
        return {(text := str(row.pop("id"))): JobStatus(id=text, **row) for row in rows}

    async def list(
        self,
        *,
        state: State | Sequence[State] | None = None,
        queue: str | None = None,
        task: str | Task[Any, Any] | None = None,
        tenant: str | None = None,
        subject: str | None = None,
        tag: str | None = None,
        batch: BatchId | None = None,
        workflow: WorkflowId | None = None,
        text: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        """List jobs by filter, newest first. Pass `page.after` as `after` for the next page.

        `text` finds jobs whose arguments contain it, in upper or lower case. At most 10,000
        jobs are scanned for a page, so it may be short or even empty although there is a next page.
        """
        if not 1 <= limit <= MAX_JOBS_PER_PAGE:
            raise BadArgument("limit", limit, f"1 to {MAX_JOBS_PER_PAGE}")
        if self._tenant is not None:
            tenant = self._tenant.resolve(tenant)
        states = scope.check_states(state)
        name = task.name if isinstance(task, Task) else task
        texts = scope.check_texts(queue=queue, task=name, tenant=tenant, subject=subject, tag=tag)
        start = key_of(after) if after else None
        if batch is not None and workflow is not None:
            raise Misuse("List the jobs of a batch or of a workflow, not of both.", "workflow")
        within = {
            "batch": None if batch is None else batch_key(batch_id_of(batch)),
            "workflow": None if workflow is None else workflow_key(workflow),
        }
        if text is not None:
            if within["batch"] is not None or within["workflow"] is not None:
                raise Misuse(
                    "A list of the jobs of a batch or a workflow takes no filter `text`.", "text"
                )
            return await self._page_with_text(text, [states, *texts, start], limit)
        jobs = await self._execute(
            lambda on: self.store.list_jobs(on, states, *texts, start, limit, **within)
        )
        return Page(tuple(jobs), jobs[-1].id if len(jobs) == limit else None)

    async def _page_with_text(self, text: str, filters: Sequence[Any], limit: int) -> Page:
        [needle] = scope.check_texts(text=text)
        assert needle is not None
        ids, last = await self._execute(
            lambda on: self.store.find_text(on, filters, MAX_JOBS_SCANNED, needle)
        )
        if len(ids) > limit:
            ids, last = ids[:limit], ids[limit - 1]
        jobs = await self._execute(lambda on: self.store.get(on, ids)) if ids else []
        order = {str(key): position for position, key in enumerate(ids)}
        jobs.sort(key=lambda job: order[job.id])
        return Page(tuple(jobs), None if last is None else str(last))

    # Change

    async def cancel(self, job: JobId, reason: str = "requested") -> bool:
        """Cancel a job now, running or not. Return False if it had completed or failed before."""
        answer = await self._change("cancel", job, reason)
        return answer == "cancelled"

    async def retry(self, job: JobId) -> None:
        """Run a final job again under its id, or a waiting job now instead of later.

        A completed job loses its progress and result, and does its work again. In a workflow, the
        job is blocked while jobs that it waits for have not ended. Raises JobConflict if the job is
        running, or if another job holds its unique key.
        """
        answer = await self._change("retry", job)
        if answer == "held":
            remedy = await self._unique_key_remedy(id_of(job))
            raise JobConflict(id_of(job), answer, "retried", remedy)
        if answer not in ("ready", "blocked"):
            raise JobConflict(id_of(job), answer, "retried")

    async def _unique_key_remedy(self, job: str) -> str:
        """Say which other job holds the unique key of a job, and what to do."""
        holders = await self.unique_holders([job])
        if job not in holders:
            return "Another job held its unique key a moment ago. Try again."
        return f"Job {holders[job]} holds its unique key. Wait for that job, or cancel it."

    async def delete(self, job: JobId) -> None:
        """Delete a job that is not running, with everything stored about it.

        Raises JobConflict if it is running.
        """
        answer = await self._change("delete", job)
        if answer != "deleted":
            raise JobConflict(id_of(job), answer, "deleted", "Cancel it first.")

    async def _change(self, verb: str, job: JobId, *args: Any) -> str:
        key = key_of(id_of(job))
        answers: dict[int, str] = await self._execute(
            lambda on: getattr(self.store, verb)(on, [key], *args, by=self._by), retry=False
        )
        if answers[key] == "missing":
            raise JobNotFound(id_of(job))
        return answers[key]
