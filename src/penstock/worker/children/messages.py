"""The messages and errors that travel between a worker and its child processes."""

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
    """The settings that a child gets at its start, such as where to find tasks and resources."""

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


class StartAttempt(Struct, tag=True, array_like=True):
    """Run an attempt. The first fields are those of a claimed job's row."""

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
    rated_keys: list[str]
    seconds: float
    memory: int
    is_timeout: bool
    # The time by the system's monotonic clock; 0 if it may start at any time.
    start_by: float


class StopAttempt(Struct, tag=True, array_like=True):
    """Stop the attempt."""

    reason: StopReason


class RemoteError(Struct, array_like=True):
    """An error in a message. Penstock's own errors keep their fields, others only their text."""

    name: str
    message: str
    fields: dict[str, Any]


class CallResponse(Struct, tag=True, array_like=True):
    """The result of a call."""

    call: int
    value: Any
    error: RemoteError | None = None


class Leave(Struct, tag=True, array_like=True):
    """Leave: no more attempts will come."""


# From the child


class ChildReady(Struct, tag=True, array_like=True):
    """The child can run its first attempt."""


class AttemptEnded(Struct, tag=True, array_like=True):
    """The attempt has ended with this outcome. If `idle` is false, its handler still runs."""

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


class Abandoned(Struct, tag=True, array_like=True):
    """The attempt was stopped, and has no outcome."""

    resident: int


class ProgressReport(Struct, tag=True, array_like=True):
    """The progress that a handler reports."""

    token: UUID
    done: float
    total: float | None
    message: str | None


class Logged(Struct, tag=True, array_like=True):
    """A log record: its formatted text, and its extra fields."""

    logger: str
    level: int
    text: str
    created: float
    path: str
    line: int
    function: str
    fields: dict[str, str | int | float | bool | None]


class CallRequest(Struct, tag=True, array_like=True):
    """A call that only the worker can serve, for the attempt with this token."""

    call: int
    token: UUID
    method: str
    args: list[Any]


FromWorker = StartAttempt | StopAttempt | CallResponse | Leave
FromChild = ChildReady | AttemptEnded | Idle | Abandoned | ProgressReport | Logged | CallRequest

encode = msgspec.msgpack.Encoder().encode
read_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
read_from_child = msgspec.msgpack.Decoder(FromChild).decode


_PLAIN = (str, int, float, bool, type(None))


def encode_error(error: Exception) -> RemoteError:
    """Encode an error for a message."""
    fields = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
    return RemoteError(type(error).__name__, str(error), fields)


def decode_error(remote: RemoteError) -> Exception:
    """Rebuild an error from a message.

    Penstock's own errors keep their class. Any other becomes a RuntimeError that quotes the error.
    """
    kind: Any = getattr(errors, remote.name, None)
    if not (isinstance(kind, type) and issubclass(kind, errors.PenstockError)):
        return RuntimeError(f"{remote.name}: {remote.message}")
    # Its __init__ would compose the message anew from its arguments.
    error: Exception = kind.__new__(kind)
    error.args = (remote.message,)
    vars(error).update(remote.fields)
    return error
