"""Workflows: jobs that wait for each other. Start, extend, read, wait for and change them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from penstock.connect.enqueue import EnqueueCalls, Enqueued, JobId, id_of
from penstock.connect.scope import in_transaction
from penstock.connect.wait import seconds_of
from penstock.errors import (
    JobConflict,
    JobNotFound,
    WorkflowNotFound,
    WorkflowRefused,
    WorkflowTimeout,
)
from penstock.groups.arguments import check_whole_number
from penstock.groups.reasons import ReasonCalls
from penstock.job import STATES, Job, State
from penstock.store import Executor, key_of
from penstock.store.workflows import Workflows, links

if TYPE_CHECKING:
    from penstock.tasks import Step, Workflow
    from penstock.tasks.workflow import Awaited


WorkflowState = Literal["running", "blocked", "completed", "failed", "cancelled"]


class Started(Struct, frozen=True):
    """A workflow that was started or extended, with its new jobs by the names of their steps."""

    id: str
    jobs: dict[str, Enqueued[Any]]

    def __getitem__(self, step: str) -> Enqueued[Any]:
        return self.jobs[step]


class WorkflowStep(Struct, frozen=True, kw_only=True):
    """A job as a step of a workflow. `parents` are the ids of the jobs that it waits for."""

    id: str
    name: str
    task: str
    state: State
    reason: str | None = None
    attempt: int = 0
    pending: int = 0
    parents: tuple[str, ...] = ()
    error: str | None = None
    run_at: datetime | None = None
    attempted_at: datetime | None = None
    finished_at: datetime | None = None


class WorkflowStatus(Struct, frozen=True, kw_only=True):
    """A workflow and its progress, as counted from its jobs.

    `state` is `blocked` if all remaining jobs wait: for a person if `stalled` is not 0, otherwise
    for an event. It is `failed` if a job has failed, unless all jobs that waited for it were told
    to continue after a failure.
    """

    id: str
    state: WorkflowState
    counts: dict[State, int]
    stalled: int = 0
    name: str | None = None
    tenant: str = ""
    meta: dict[str, Any] = {}
    created_at: datetime
    finished_at: datetime | None = None
    steps: tuple[WorkflowStep, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def is_final(self) -> bool:
        return self.state not in ("running", "blocked")

    def __getitem__(self, step: str) -> WorkflowStep:
        """Return the first step with this name. Raises KeyError if there is none."""
        for candidate in self.steps:
            if candidate.name == step:
                return candidate
        raise KeyError(step)


class WorkflowPage(Struct, frozen=True):
    """A page of workflows, newest first.

    Pass `after` to get the next page. It is None on the last one.
    """

    workflows: tuple[WorkflowStatus, ...]
    after: str | None


WorkflowId: TypeAlias = str | Started | WorkflowStatus | Job


def workflow_key(workflow: WorkflowId) -> int:
    """Return the number of a workflow. A job stands for the workflow to which it belongs."""
    if isinstance(workflow, Job):
        if workflow.workflow is None:
            raise WorkflowNotFound(f"of job {workflow.id}")
        name = workflow.workflow
    elif isinstance(workflow, Started | WorkflowStatus):
        name = workflow.id
    elif isinstance(workflow, str):
        name = workflow
    else:
        raise TypeError(
            f"Pass the id of a workflow as text, or what start_workflow returned, not {workflow!r}."
        )
    try:
        return key_of(name)
    except JobNotFound:
        raise WorkflowNotFound(name) from None


def status_from(row: Mapping[str, Any], steps: tuple[WorkflowStep, ...] = ()) -> WorkflowStatus:
    """Return a workflow from a row of `get_workflow` or `list_workflows`."""
    state = _state(row)
    return WorkflowStatus(
        id=str(row["id"]),
        state=state,
        counts={name: row[name] for name in STATES if row[name]},
        stalled=row["stalled"],
        name=row["name"],
        tenant=row["tenant"],
        meta=msgspec.json.decode(row["meta"]) if row["meta"] else {},
        created_at=row["created_at"],
        finished_at=None if state in ("running", "blocked") else row["finished_at"],
        steps=steps,
    )


def step_from(row: Mapping[str, Any]) -> WorkflowStep:
    """Return a step from a row of `list_workflow_steps`."""
    fields = dict(row)
    fields["id"] = str(fields["id"])
    fields["name"] = fields.pop("step") or fields["task"]
    fields["parents"] = tuple(map(str, fields["parents"] or ()))
    return WorkflowStep(**fields)


def _state(row: Mapping[str, Any]) -> WorkflowState:
    if row["scheduled"] or row["ready"] or row["running"]:
        return "running"
    if row["blocked"]:
        return "blocked"
    if row["is_failed"]:
        return "failed"
    return "cancelled" if row["is_cancelled"] else "completed"


T = TypeVar("T")

MAX_WORKFLOWS_PER_PAGE: Final = 100
NO_TRANSACTION: Final = (
    "A workflow is stored by several statements, which need one transaction, but your connection "
    "has none open. Begin one first."
)
_UNKNOWN: Final = (
    "The workflow may or may not have been stored: "
    "look for it with app.workflows() before you start it again."
)


class WorkflowCalls(EnqueueCalls, ReasonCalls):
    """The calls for workflows: jobs that wait for each other.

    `by` is the name that the audit records for a change. Without it, the audit records the database
    role.
    """

    _notify = True

    async def start_workflow(self, flow: Workflow) -> Started:
        """Store a workflow with all of its jobs, or nothing if that fails.

        started = await app.start_workflow(flow)
        await app.wait_workflow(started, timeout=60)
        """
        _check_new(flow)
        tenant = _tenant_of(flow)

        async def store(on: Executor) -> Started:
            workflow = await Workflows(self.store).create(on, flow, tenant, by=self._by)
            order = flow.in_order()
            requests = [step.request for step in order]
            edges = links(flow, workflow)
            stored = await self._store_traced(
                requests, lambda traced: self._insert(on, traced, edges)
            )
            return _started(workflow, order, stored.ids)

        return await self._store_once(lambda on: self._in_transaction(on, store))

    async def extend_workflow(self, workflow: WorkflowId, flow: Workflow) -> Started:
        """Add jobs to a workflow. They may come between jobs that it already has.

            more = Workflow()
            more.add(parse.prepare(11), after="fetch", before="index")
            await app.extend_workflow(started, more)

        Only a job that has not started can be made to wait for a new one. In a handler, call
        `ctx.extend` instead, which adds nothing twice, however often the job is attempted.
        """
        key = workflow_key(workflow)
        _check_steps(flow)

        async def store(on: Executor) -> Started:
            added = await Workflows(self.store).extend(
                on, key, flow, notify=self._notify, durable=self._connection is None
            )
            return _started(key, flow.in_order(), [step.id for step in added])

        return await self._store_once(store)

    async def _in_transaction(
        self, on: Executor, store: Callable[[Executor], Awaitable[Started]]
    ) -> Started:
        is_ours = self._connection is None
        return await in_transaction(on, store, is_ours=is_ours, refusal=NO_TRANSACTION)

    async def _store_once(self, store: Callable[[Executor], Awaitable[Started]]) -> Started:
        return await self._execute(store, retry=False, doubt=_UNKNOWN)

    # Read

    async def get_workflow(self, workflow: WorkflowId) -> WorkflowStatus:
        """Return a workflow with all of its steps. Raises WorkflowNotFound."""
        key = workflow_key(workflow)

        async def read(on: Executor) -> WorkflowStatus:
            row = await Workflows(self.store).find(on, key)
            if row is None:
                raise WorkflowNotFound(str(key))
            steps = await Workflows(self.store).steps(on, key)
            return status_from(row, tuple(map(step_from, steps)))

        return await self._execute(read)

    async def workflows(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 100
    ) -> WorkflowPage:
        """List workflows without steps, newest first. Pass `page.after` for the next page."""
        check_whole_number("limit", limit, 1, MAX_WORKFLOWS_PER_PAGE)
        if self._tenant is not None:
            tenant = self._tenant.resolve(tenant)
        start = None if after is None else workflow_key(after)
        rows = await self._execute(lambda on: Workflows(self.store).page(on, tenant, start, limit))
        page = tuple(map(status_from, rows))
        return WorkflowPage(page, page[-1].id if len(page) == limit else None)

    async def awaited(self, job: JobId) -> tuple[Awaited, ...]:
        """Return the jobs that a job waits for or has waited for."""
        key = key_of(id_of(job))
        return tuple(await self._execute(lambda on: Workflows(self.store).awaited(on, key)))

    async def wait_workflow(
        self, workflow: WorkflowId, timeout: float | timedelta | None = None
    ) -> WorkflowStatus:
        """Wait until a workflow has ended, well or badly, and return it. Raises WorkflowTimeout."""
        key = workflow_key(workflow)

        async def is_finished() -> bool:
            finished = await self._execute(lambda on: Workflows(self.store).is_finished(on, key))
            if finished is None:
                raise WorkflowNotFound(str(key))
            return finished

        seconds = seconds_of(timeout)
        has_finished = await self._poll(bool, is_finished, seconds)
        status = await self.get_workflow(str(key))
        if not has_finished and not status.is_final:
            why = await self._why(lambda: self.why_workflow(str(key)), f"workflow {key}")
            raise WorkflowTimeout(status.id, status.state, seconds or 0.0, why)
        return status

    async def why_workflow(self, workflow: WorkflowId) -> str:
        """Explain why a workflow has not ended: say what some of its jobs wait for."""
        key = workflow_key(workflow)
        if await self._execute(lambda on: Workflows(self.store).is_finished(on, key)) is None:
            raise WorkflowNotFound(str(key))
        return await self._why_jobs(workflow=key)

    # Change

    async def cancel_workflow(
        self, workflow: WorkflowId, reason: str = "requested", *, by: str | None = None
    ) -> int:
        """Cancel all jobs of a workflow that have not ended. Return how many.

        The call is one transaction, which takes about two seconds for 20,000 jobs.
        """
        key, actor = workflow_key(workflow), self._actor(by)
        ended = await self._execute(
            lambda on: Workflows(self.store).cancel(on, key, reason, actor), retry=False
        )
        return _expect_found(ended, key)

    async def retry_workflow(self, workflow: WorkflowId, *, by: str | None = None) -> int:
        """Run the failed and cancelled jobs of a workflow again, in their order. Return how many.

        Like `cancel_workflow`, the call is one transaction.
        """
        key, actor = workflow_key(workflow), self._actor(by)
        retried = await self._execute(
            lambda on: Workflows(self.store).retry(on, key, actor), retry=False
        )
        return _expect_found(retried, key)

    async def unblock(self, job: JobId, *, by: str | None = None) -> None:
        """Let a blocked job run now, without waiting for the other jobs any longer.

        Raises JobConflict if the job is not blocked.
        """
        key, actor = key_of(id_of(job)), self._actor(by)
        answers = await self._execute(
            lambda on: Workflows(self.store).unblock(on, [key], actor), retry=False
        )
        if answers[key] == "missing":
            raise JobNotFound(id_of(job))
        if answers[key] != "ready":
            raise JobConflict(id_of(job), answers[key], "unblocked")


def _started(workflow: int, order: Sequence[Step[Any]], ids: Sequence[int]) -> Started:
    jobs: dict[str, Enqueued[Any]] = {
        step.name: Enqueued(str(key)) for step, key in zip(order, ids, strict=True)
    }
    return Started(str(workflow), jobs)


def _check_steps(flow: Workflow) -> None:
    if not len(flow):
        raise WorkflowRefused("The workflow has no steps. Add at least one.")


def _check_new(flow: Workflow) -> None:
    _check_steps(flow)
    for step in flow.steps:
        edges = (*flow.parents[step.number], *flow.children[step.number])
        for other in (edge for edge in edges if not isinstance(edge, int)):
            named = repr(other) if isinstance(other, str) else f"of job {other.id}"
            raise WorkflowRefused(
                f"The step {step.name!r} is linked with the step {named}, which is not part of "
                "this workflow. Add that step first. To add steps to a workflow that has "
                "started, use extend_workflow."
            )


def _tenant_of(flow: Workflow) -> str:
    tenants = sorted({step.request.options.tenant for step in flow.steps})
    if len(tenants) > 1:
        raise WorkflowRefused(
            "All steps of a workflow must belong to one tenant, but these belong to "
            f"{', '.join(map(repr, tenants))}. Make one workflow for each tenant."
        )
    return tenants[0]


def _expect_found(number: int | None, key: int) -> int:
    if number is None:
        raise WorkflowNotFound(str(key))
    return number
