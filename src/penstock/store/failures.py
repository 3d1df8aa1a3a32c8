"""What a database error means for the one who asked."""

from __future__ import annotations

import socket

import asyncpg

# Our own SQLSTATEs, raised by the functions.
LEASE_LOST = "PS001"
KEY_MISMATCH = "PS002"
STALE_ATTEMPT = "PS003"

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

_NO_SCHEMA = ("3F000", "42P01", "42883")


def is_lost(error: BaseException) -> bool:
    """Whether the connection broke: the statement may or may not have happened."""
    if isinstance(error, asyncpg.QueryCanceledError):
        return False
    return isinstance(error, _LOST)


def never_arrived(error: BaseException) -> bool:
    """Whether there was not even a connection: the statement has certainly not happened."""
    return isinstance(error, _UNSENT)


def is_passing(error: BaseException) -> bool:
    """Whether the statement did not happen, and may well succeed when it is tried again."""
    return _state(error)[:2] in _PASSING_CLASSES


def is_schema_missing(error: BaseException) -> bool:
    """Whether the database has no such table or function: migrations have not run."""
    return _state(error) in _NO_SCHEMA


def is_state(error: BaseException, sqlstate: str) -> bool:
    """Whether Postgres raised this very SQLSTATE."""
    return _state(error) == sqlstate


def _state(error: BaseException) -> str:
    return (error.sqlstate or "") if isinstance(error, asyncpg.PostgresError) else ""
