"""Errors on their way from the worker into a child process, where the handler is to see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from penstock import errors
from penstock.config import Database, JobLog
from penstock.outcome import Transition
from penstock.worker.attempt import StopReason


class ChildSettings(Struct, frozen=True):
    """What a child knows from its beginning: where tasks and resources are found by name."""

    worker: str
    database: Database
    park_limit: float
    log_level: int
    registry: str
    tasks: dict[str, str]
    resources: list[tuple[str, str]]
    tracing: str | None = None
    log: JobLog = JobLog()


# From the worker


class Order(Struct, tag=True, array_like=True):
    """Run an attempt; the first fields are those of a claim's row."""

    id: int
    token: UUID
    task: str
    queue: str
    args: str
    args_version: int
    attempt: int
    failures: int
    max_attempts: int
    losses: int
    timeout: float | None
    lane: str
    priority: int
    tenant: str
    ready_at: datetime
    created_at: datetime
    batch: int | None
    extra: str | None
    rated: list[str]
    seconds: float
    memory: int
    is_timeout: bool
    # By the system's monotonic clock; 0 if there is no hurry.
    begin_by: float


class Stop(Struct, tag=True, array_like=True):
    """The attempt is to end."""

    reason: StopReason


class Trouble(Struct, array_like=True):
    """An error: one of ours by its name, with what it holds; of others the text."""

    name: str
    message: str
    held: dict[str, Any]


class Answer(Struct, tag=True, array_like=True):
    """What came of a call."""

    call: int
    value: Any
    trouble: Trouble | None = None


class Leave(Struct, tag=True, array_like=True):
    """End: nothing more comes."""


# From the child


class Up(Struct, tag=True, array_like=True):
    """Ready for a first order."""


class Ended(Struct, tag=True, array_like=True):
    """What became of the attempt. Not idle: its handler still runs."""

    transition: Transition
    result: str | None
    is_check: bool
    completed: bool
    refused: bool
    idle: bool
    resident: int


class Idle(Struct, tag=True, array_like=True):
    """The handler of a stopped attempt has returned."""

    resident: int


class Dropped(Struct, tag=True, array_like=True):
    """The attempt has ended, and nobody asks how."""

    resident: int


class Told(Struct, tag=True, array_like=True):
    """How far the handler of an attempt is."""

    token: UUID
    done: float
    total: float | None
    message: str | None


class Logged(Struct, tag=True, array_like=True):
    """A line of a log, as text, and what its record has besides."""

    logger: str
    level: int
    text: str
    created: float
    path: str
    line: int
    function: str
    fields: dict[str, str | int | float | bool | None]


class Asked(Struct, tag=True, array_like=True):
    """A call that only the worker can answer, for the attempt with this token."""

    call: int
    token: UUID
    what: str
    args: list[Any]


FromWorker = Order | Stop | Answer | Leave
FromChild = Up | Ended | Idle | Dropped | Told | Logged | Asked

encode = msgspec.msgpack.Encoder().encode
read_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
read_from_child = msgspec.msgpack.Decoder(FromChild).decode


_PLAIN = (str, int, float, bool, type(None))


def trouble(error: Exception) -> Trouble:
    """An error as it is sent."""
    held = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
    return Trouble(type(error).__name__, str(error), held)


def raised(told: Trouble) -> Exception:
    """The error to raise for it: the same if it is one of ours, else one that quotes it."""
    kind: Any = getattr(errors, told.name, None)
    if not (isinstance(kind, type) and issubclass(kind, errors.PenstockError)):
        return RuntimeError(f"{told.name}: {told.message}")
    # Not through its __init__, which would put the text together from what it is given.
    error: Exception = kind.__new__(kind)
    error.args = (told.message,)
    vars(error).update(told.held)
    return error
