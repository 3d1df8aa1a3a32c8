"""The jobs that another waits for, as its handler and its callers see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from penstock.job import COMPLETED, State


class Parent(Struct, frozen=True, kw_only=True):
    """A job that another has waited for: its state and result, or its last error as text."""

    id: str
    step: str
    task: str
    state: State
    reason: str | None = None
    result: Any = None
    error: str | None = None

    @property
    def is_completed(self) -> bool:
        return self.state == COMPLETED


class Awaited(Struct, frozen=True, kw_only=True):
    """A job that another waits for, or has waited for; `missing` is one that was deleted."""

    id: str
    step: str | None
    task: str | None
    state: State | Literal["missing"]
    satisfied: bool
    on_failure: str

    def __str__(self) -> str:
        return f"{self.step or self.task or 'a job'} ({self.state}, job {self.id})"


def by_step(parents: Iterable[Parent]) -> dict[str, Parent]:
    """Parents by the names of their steps; of two with one name the later has its id with it."""
    named: dict[str, Parent] = {}
    for parent in parents:
        taken = parent.step in named
        named[f"{parent.step} #{parent.id}" if taken else parent.step] = parent
    return named
