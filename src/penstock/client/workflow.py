"""What the client answers about workflows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from penstock.client.enqueue import Enqueued
from penstock.errors import JobNotFound, WorkflowNotFound
from penstock.job import STATES, Job, State
from penstock.store import key_of

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
