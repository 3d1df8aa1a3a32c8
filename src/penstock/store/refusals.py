"""What the functions refuse with a state of ours, as errors of the domain."""

from __future__ import annotations

import json
from collections.abc import Callable

from penstock.errors import (
    BatchClosed,
    BatchNotFound,
    ChildStarted,
    IdempotencyMismatch,
    ParentNotFound,
    PenstockError,
    StepUnclear,
    TenantMismatch,
    UniqueConflict,
    WorkflowCycle,
    WorkflowNotFound,
)
from penstock.store import failures

_REFUSALS: dict[str, Callable[..., PenstockError]] = {
    failures.KEY_MISMATCH: IdempotencyMismatch,
    failures.TENANT_MISMATCH: TenantMismatch,
    failures.UNIQUE_CONFLICT: UniqueConflict,
    failures.BATCH_MISSING: BatchNotFound,
    failures.BATCH_CLOSED: BatchClosed,
    failures.PARENT_MISSING: ParentNotFound,
    failures.CHILD_STARTED: ChildStarted,
    failures.CYCLE: WorkflowCycle,
    failures.WORKFLOW_MISSING: WorkflowNotFound,
    failures.STEP_UNCLEAR: StepUnclear,
}


def refused(error: BaseException) -> PenstockError | None:
    """The error that a database's refusal stands for; it is made of the refusal's detail."""
    for state, refusal_of in _REFUSALS.items():
        if failures.is_state(error, state):
            return refusal_of(*json.loads(failures.detail(error) or "[]"))
    return None
