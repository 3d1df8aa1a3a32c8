"""Workflows: jobs that wait for each other. Start them, add to them, wait for them, change them."""

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
from penstock.groups.arguments import whole
from penstock.groups.reasons import ReasonCalls
from penstock.job import STATES, Job, State
from penstock.store import Executor, key_of
from penstock.store.workflows import Workflows, links

if TYPE_CHECKING:
    from penstock.tasks import Step, Workflow
    from penstock.tasks.workflow import Awaited


WorkflowState = Literal["running", "blocked", "completed", "failed", "cancelled"]


class Started(Struct, frozen=True):
    """A workflow that is durably stored, or was added to; its new jobs by their steps' names."""

    id: str
    jobs: dict[str, Enqueued[Any]]

    def __getitem__(self, step: str) -> Enqueued[Any]:
        return self.jobs[step]


class WorkflowStep(Struct, frozen=True, kw_only=True):
    """A job as a part of its workflow; `parents` are the ids of those that it waits for."""

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
    """How far a workflow is, read from its jobs.

    It is `blocked` if all that is left waits: for a person where `stalled` is not zero, otherwise
    for an event. It has failed if a job has whose failure was not borne: the steps after it were
    not told to continue.
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
        """The first step of that name."""
        for each in self.steps:
            if each.name == step:
                return each
        raise KeyError(step)


class WorkflowPage(Struct, frozen=True):
    """Some workflows, newest first, and what to pass as `after` for the next ones."""

    workflows: tuple[WorkflowStatus, ...]
    after: str | None


WorkflowId: TypeAlias = str | Started | WorkflowStatus | Job


def workflow_key(workflow: WorkflowId) -> int:
    """The number of the workflow that is meant: of a job, the one that it belongs to."""
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
            "A workflow is named by its id, a text, or by what start_workflow gave; "
            f"not by {workflow!r}."
        )
    try:
        return key_of(name)
    except JobNotFound:
        raise WorkflowNotFound(name) from None


def status_from(row: Mapping[str, Any], steps: tuple[WorkflowStep, ...] = ()) -> WorkflowStatus:
    """A workflow from a row of `get_workflow` or `list_workflows`."""
    state = _state(row)
    return WorkflowStatus(
        id=str(row["id"]),
        state=state,
        counts={each: row[each] for each in STATES if row[each]},
        stalled=row["stalled"],
        name=row["name"],
        tenant=row["tenant"],
        meta=msgspec.json.decode(row["meta"]) if row["meta"] else {},
        created_at=row["created_at"],
        finished_at=None if state in ("running", "blocked") else row["finished_at"],
        steps=steps,
    )


def step_from(row: Mapping[str, Any]) -> WorkflowStep:
    """A step from a row of `workflow_steps`."""
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

LONGEST_PAGE: Final = 100
NO_TRANSACTION: Final = (
    "A workflow is stored in several statements, all or none, and there is no transaction on your "
    "connection: begin one first."
)
_UNKNOWN: Final = (
    "The workflow may or may not have been stored: "
    "look for it with app.workflows() before you start it again."
)


class WorkflowCalls(EnqueueCalls, ReasonCalls):
    """The calls for workflows: jobs that wait for each other.

    `by` says in the audit who made a change; without it that is the database's role.
    """

    _notify = True

    async def start_workflow(self, flow: Workflow) -> Started:
        """Store a workflow with all its jobs, all or none.

        started = await app.start_workflow(flow)
        await app.wait_workflow(started, timeout=60)
        """
        _check_new(flow)
        tenant = _tenant_of(flow)

        async def store(on: Executor) -> Started:
            workflow = await Workflows(self.store).create(on, flow, tenant, by=self._by)
            order = flow.in_order()
            requests = [step.request for step in order]
            together = links(flow, workflow)
            stored = await self._sent(requests, lambda sent: self._insert(on, sent, together))
            return _started(workflow, order, stored.ids)

        return await self._surely(lambda on: self._whole(on, store))

    async def extend_workflow(self, workflow: WorkflowId, flow: Workflow) -> Started:
        """Add jobs to a workflow that is under way, after and before those that it has.

            more = Workflow()
            more.add(parse.prepare(11), after="fetch", before="index")
            await app.extend_workflow(started, more)

        Only a job that has not started can be made to wait for a new one. In a handler, call
        `ctx.extend`: it adds nothing twice, however often the attempt is repeated.
        """
        key = workflow_key(workflow)
        _check_steps(flow)

        async def store(on: Executor) -> Started:
            added = await Workflows(self.store).extend(
                on, key, flow, notify=self._notify, durable=self._connection is None
            )
            return _started(key, flow.in_order(), [each.id for each in added])

        return await self._surely(store)

    async def _whole(
        self, on: Executor, store: Callable[[Executor], Awaitable[Started]]
    ) -> Started:
        is_ours = self._connection is None
        return await in_transaction(on, store, is_ours=is_ours, refusal=NO_TRANSACTION)

    async def _surely(self, store: Callable[[Executor], Awaitable[Started]]) -> Started:
        return await self._ask(store, again=False, doubt=_UNKNOWN)

    # Look

    async def get_workflow(self, workflow: WorkflowId) -> WorkflowStatus:
        """How far a workflow is, with all its steps."""
        key = workflow_key(workflow)

        async def look(on: Executor) -> WorkflowStatus:
            rows = await Workflows(self.store).find(on, key)
            if rows is None:
                raise WorkflowNotFound(str(key))
            steps = await Workflows(self.store).steps(on, key)
            return status_from(rows, tuple(map(step_from, steps)))

        return await self._ask(look)

    async def workflows(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 100
    ) -> WorkflowPage:
        """Workflows, newest first, without their steps. Pass `page.after` for the next page."""
        whole("limit", limit, 1, LONGEST_PAGE)
        if self._tenant is not None:
            tenant = self._tenant.named(tenant)
        start = None if after is None else workflow_key(after)
        rows = await self._ask(lambda on: Workflows(self.store).page(on, tenant, start, limit))
        found = tuple(map(status_from, rows))
        return WorkflowPage(found, found[-1].id if len(found) == limit else None)

    async def awaited(self, job: JobId) -> tuple[Awaited, ...]:
        """The jobs that one waits for, and those that it has waited for."""
        key = key_of(id_of(job))
        return tuple(await self._ask(lambda on: Workflows(self.store).awaited(on, key)))

    async def wait_workflow(
        self, workflow: WorkflowId, timeout: float | timedelta | None = None
    ) -> WorkflowStatus:
        """How a workflow ended, once it has: look at its state. Raises WorkflowTimeout."""
        key = workflow_key(workflow)

        async def look() -> bool:
            over = await self._ask(lambda on: Workflows(self.store).is_finished(on, key))
            if over is None:
                raise WorkflowNotFound(str(key))
            return over

        seconds = seconds_of(timeout)
        is_over = await self._until(bool, look, seconds)
        status = await self.get_workflow(str(key))
        if not is_over and not status.is_final:
            why = await self._why(lambda: self.why_workflow(str(key)), f"workflow {key}")
            raise WorkflowTimeout(status.id, status.state, seconds or 0.0, why)
        return status

    async def why_workflow(self, workflow: WorkflowId) -> str:
        """Why a workflow has not ended: some of its jobs, each with what it waits for."""
        key = workflow_key(workflow)
        if await self._ask(lambda on: Workflows(self.store).is_finished(on, key)) is None:
            raise WorkflowNotFound(str(key))
        return await self._why_jobs(workflow=key)

    # Change

    async def cancel_workflow(
        self, workflow: WorkflowId, reason: str = "requested", *, by: str | None = None
    ) -> int:
        """End all jobs of a workflow that have not ended, running or not; how many.

        It is one transaction, all or none: of 20,000 jobs about two seconds.
        """
        key, actor = workflow_key(workflow), self._actor(by)
        ended = await self._ask(
            lambda on: Workflows(self.store).cancel(on, key, reason, actor), again=False
        )
        return _found(ended, key)

    async def retry_workflow(self, workflow: WorkflowId, *, by: str | None = None) -> int:
        """Run again what has failed or was cancelled, each after what it waits for; how many.

        As `cancel_workflow`, it is one transaction.
        """
        key, actor = workflow_key(workflow), self._actor(by)
        back = await self._ask(lambda on: Workflows(self.store).retry(on, key, actor), again=False)
        return _found(back, key)

    async def unblock(self, job: JobId, *, by: str | None = None) -> None:
        """Let a job run now that waits for others, whatever becomes of them."""
        key, actor = key_of(id_of(job)), self._actor(by)
        answers = await self._ask(
            lambda on: Workflows(self.store).unblock(on, [key], actor), again=False
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
        raise WorkflowRefused("The workflow has no steps: add one.")


def _check_new(flow: Workflow) -> None:
    _check_steps(flow)
    for step in flow.steps:
        edges = (*flow.parents[step.number], *flow.children[step.number])
        for other in (each for each in edges if not isinstance(each, int)):
            named = repr(other) if isinstance(other, str) else f"of job {other.id}"
            raise WorkflowRefused(
                f"The step {step.name!r} is linked with the step {named}, which this workflow does "
                "not have. Add that first; to add to a workflow that is under way, extend it."
            )


def _tenant_of(flow: Workflow) -> str:
    tenants = sorted({step.request.options.tenant for step in flow.steps})
    if len(tenants) > 1:
        raise WorkflowRefused(
            "Jobs that wait for each other belong to one tenant, and these belong to "
            f"{', '.join(map(repr, tenants))}. Make a workflow for each."
        )
    return tenants[0]


def _found(number: int | None, key: int) -> int:
    if number is None:
        raise WorkflowNotFound(str(key))
    return number
