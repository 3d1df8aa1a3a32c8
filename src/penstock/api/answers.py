"""What the client of the API takes and gives beside the values that the engine's own calls have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from penstock.client import BatchStatus, JobNow, OwnerNow, SubjectKind
from penstock.insights import QueueInsight

Now: TypeAlias = JobNow | BatchStatus | QueueInsight | OwnerNow
# What a subject's state is, by its kind.
STATES: Final[dict[SubjectKind, type[Now]]] = {
    "job": JobNow,
    "batch": BatchStatus,
    "queue": QueueInsight,
    "tenant": OwnerNow,
    "user": OwnerNow,
}


class New(Struct, frozen=True, omit_defaults=True):
    """A job to be enqueued: a task by its name, arguments, and options as the task takes them."""

    task: str
    args: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}


class Live(Struct, frozen=True, kw_only=True):
    """The whole present state of a subject; after one that is `final` nothing comes."""

    subject: str
    version: str | None
    final: bool
    state: Now | None
