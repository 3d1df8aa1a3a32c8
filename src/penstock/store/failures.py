"""What a database error means for the one who asked."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import asyncpg

from penstock.errors import PenstockError

# Our own SQLSTATEs, raised by the functions.
LEASE_LOST = "PS001"
KEY_MISMATCH = "PS002"
STALE_ATTEMPT = "PS003"
COMPLETED_ALREADY = "PS004"
TENANT_MISMATCH = "PS007"
TENANT_MISSING = "PS008"
ROLES_UNFIT = "PS009"
BUDGET_TOO_SMALL = "PS005"
UNKNOWN_BUDGET = "PS006"
UNIQUE_CONFLICT = "PS010"
BATCH_MISSING = "PS011"
BATCH_CLOSED = "PS012"
PARENT_MISSING = "PS013"
CHILD_STARTED = "PS014"
CYCLE = "PS015"
WORKFLOW_MISSING = "PS016"
STEP_UNCLEAR = "PS017"

_LOST = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InternalClientError,
)

_UNSENT = (
    ConnectionRefusedError,
    FileNotFoundError,
    socket.gaierror,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
)

# Gone when asked again: serialization, deadlock, lock or statement timeout, out of some resource.
_PASSING_CLASSES = ("40", "53", "55", "57")
# A pooler that was not noticed, or said to bear prepared statements, and gave us another server.
_PREPARED_ELSEWHERE = ("26000", "42P05")

_NO_RIGHT = "42501"
_NO_SCHEMA = ("3F000", "42P01", "42883")


def is_lost(error: BaseException) -> bool:
    """Whether the connection broke: the statement may or may not have happened."""
    if isinstance(error, asyncpg.QueryCanceledError | PenstockError):  # ours may be a TimeoutError
        return False
    return isinstance(error, _LOST)


def never_arrived(error: BaseException) -> bool:
    """Whether there was not even a connection: the statement has certainly not happened."""
    return isinstance(error, _UNSENT)


def is_passing(error: BaseException) -> bool:
    """Whether the statement did not happen, and may well succeed when it is tried again."""
    state = _state(error)
    return state[:2] in _PASSING_CLASSES or state in _PREPARED_ELSEWHERE


def is_schema_missing(error: BaseException) -> bool:
    """Whether the database has no such table or function: migrations have not run."""
    return _state(error) in _NO_SCHEMA


def is_refused(error: BaseException) -> bool:
    """Whether the role has no right to what it asked."""
    return _state(error) == _NO_RIGHT


def is_state(error: BaseException, sqlstate: str) -> bool:
    """Whether Postgres raised this very SQLSTATE."""
    return _state(error) == sqlstate


def message(error: BaseException) -> str:
    """What Postgres itself said, without what drivers put around it."""
    told = next(filter(_own_state, _layers(error)), error)
    return str(told).partition("\n")[0]


def detail(error: BaseException) -> str | None:
    """What Postgres said beside its message."""
    for one in _layers(error):
        told = getattr(one, "detail", None) or getattr(
            getattr(one, "diag", None), "message_detail", None
        )
        if isinstance(told, str) and _own_state(one):
            return told
    return None


def _state(error: BaseException) -> str:
    return next(filter(None, map(_own_state, _layers(error))), "")


def _own_state(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else ""


def _layers(error: BaseException) -> Iterator[BaseException]:
    """The error, and the driver's own below it: SQLAlchemy and Django wrap them in theirs."""
    layer: BaseException | None = error
    while layer is not None and not isinstance(layer, PenstockError):
        yield layer
        layer = getattr(layer, "orig", None) or layer.__cause__
