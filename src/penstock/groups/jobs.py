"""Jobs one by one: find them, list them and change them."""

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

STATES_AT_ONCE = 1000
LONGEST_PAGE = 1000
# So many jobs are looked at for a text in their arguments, in one call.
LOOK = 10_000


class JobCalls(BulkCalls):
    """The calls that look at jobs and change them."""

    # Look

    async def get(self, job: JobId) -> Job:
        """The job as it is now, live or final; JobNotFound if it never was or is long gone."""
        found = await self.find(job)
        if found is None:
            raise JobNotFound(id_of(job))
        return found

    async def find(self, job: JobId) -> Job | None:
        """The job as it is now, or None."""
        try:
            key = key_of(id_of(job))
        except JobNotFound:
            return None
        jobs = await self._ask(lambda on: self.store.get(on, [key]))
        return jobs[0] if jobs else None

    async def states(self, jobs: Sequence[JobId]) -> dict[str, JobStatus]:
        """State and progress of up to 1,000 jobs in one call; those not found are left out."""
        if len(jobs) > STATES_AT_ONCE:
            raise BadArgument("jobs", len(jobs), f"at most {STATES_AT_ONCE} ids in one call")
        keys = []
        for job in jobs:
            with suppress(JobNotFound):
                keys.append(key_of(id_of(job)))
        rows = await self._ask(lambda on: self.store.states(on, keys))
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
        """Jobs by filter, newest first. Pass `page.after` as `after` for the next page.

        `text` is one that the arguments hold, in any case. A page of such looks at 10,000 jobs at
        most, so it may be short, or empty, and yet have a next one.
        """
        if not 1 <= limit <= LONGEST_PAGE:
            raise BadArgument("limit", limit, f"1 to {LONGEST_PAGE}")
        if self._tenant is not None:
            tenant = self._tenant.named(tenant)
        states = scope.states(state)
        name = task.name if isinstance(task, Task) else task
        texts = scope.texts(queue=queue, task=name, tenant=tenant, subject=subject, tag=tag)
        start = key_of(after) if after else None
        if batch is not None and workflow is not None:
            raise Misuse("Jobs are listed of a workflow or of a batch, not of both.", "workflow")
        within = {
            "batch": None if batch is None else batch_key(batch_id_of(batch)),
            "workflow": None if workflow is None else workflow_key(workflow),
        }
        if text is not None:
            if within["batch"] is not None or within["workflow"] is not None:
                raise Misuse("Jobs of a batch or a workflow cannot be found by a text.", "text")
            return await self._holding(text, [states, *texts, start], limit)
        jobs = await self._ask(
            lambda on: self.store.list_jobs(on, states, *texts, start, limit, **within)
        )
        return Page(tuple(jobs), jobs[-1].id if len(jobs) == limit else None)

    async def _holding(self, text: str, given: Sequence[Any], limit: int) -> Page:
        [wanted] = scope.texts(text=text)
        assert wanted is not None
        ids, last = await self._ask(lambda on: self.store.find_text(on, given, LOOK, wanted))
        if len(ids) > limit:
            ids, last = ids[:limit], ids[limit - 1]
        jobs = await self._ask(lambda on: self.store.get(on, ids)) if ids else []
        order = {str(key): place for place, key in enumerate(ids)}
        jobs.sort(key=lambda job: order[job.id])
        return Page(tuple(jobs), None if last is None else str(last))

    # Change

    async def cancel(self, job: JobId, reason: str = "requested") -> bool:
        """End a job now, running or not. False if it had already ended in another way."""
        answer = await self._change("cancel", job, reason)
        return answer == "cancelled"

    async def retry(self, job: JobId) -> None:
        """Run a job again: a final one comes back under its id, a waiting one is due now.

        A completed one does its work again; its progress and result are gone then. In a workflow
        it comes back blocked while jobs that it waits for live.
        """
        answer = await self._change("retry", job)
        if answer == "held":
            raise JobConflict(id_of(job), answer, "retried", await self._held(id_of(job)))
        if answer not in ("ready", "blocked"):
            raise JobConflict(id_of(job), answer, "retried")

    async def _held(self, job: str) -> str:
        """Who holds a job's unique key, and what to do about it."""
        found = await self.unique_holders([job])
        if job not in found:
            return "Its unique key was another job's a moment ago; try again."
        return f"Its unique key belongs to job {found[job]}: wait for that one, or cancel it."

    async def delete(self, job: JobId) -> None:
        """Erase a job that does not run, with all that is kept about it."""
        answer = await self._change("delete", job)
        if answer != "deleted":
            raise JobConflict(id_of(job), answer, "deleted", "Cancel it first.")

    async def _change(self, verb: str, job: JobId, *args: Any) -> str:
        key = key_of(id_of(job))
        answers: dict[int, str] = await self._ask(
            lambda on: getattr(self.store, verb)(on, [key], *args, by=self._by), again=False
        )
        if answers[key] == "missing":
            raise JobNotFound(id_of(job))
        return answers[key]
