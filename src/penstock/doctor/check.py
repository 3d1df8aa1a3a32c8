"""A check: what it asks, how it reads the answer, and how it judges what it read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from penstock.doctor.finding import Finding
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient

F = TypeVar("F")


class Group(StrEnum):
    """What a check looks at, in the order in which a person would."""

    DATABASE = "Database"
    STORAGE = "Storage"
    WORKERS = "Workers"
    JOBS = "Jobs"


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """Reading needs a database; judging is a pure function, and says at least one thing."""

    name: str
    group: Group
    question: str
    read: Callable[[Patient], Awaitable[F]]
    judge: Callable[[F, Limits], Sequence[Finding]]


AnyCheck = Check[Any]
