"""What the driver raises, as errors that name the database and say what to do.

Each has the driver's error as its cause.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.errors import (
    DatabaseBusy,
    DatabaseDenied,
    DatabaseError,
    DatabaseExhausted,
    DatabaseLost,
    DatabaseReadOnly,
)
from penstock.store import failures


class _Kind(NamedTuple):
    error: type[DatabaseError]
    told: str
    remedy: str


# By SQLSTATE or the beginning of one; the first that fits.
_KINDS: Final = {
    "25006": _Kind(
        DatabaseReadOnly,
        "takes no writes",
        "It is a standby, or set to read only: try again after the failover, or let the address "
        "lead to the primary.",
    ),
    "53100": _Kind(DatabaseExhausted, "has no room", "Make room on its disk, then try again."),
    "53200": _Kind(
        DatabaseExhausted,
        "is out of memory",
        "Give the server more memory, or raise max_locks_per_transaction if the message names it. "
        "Then try again.",
    ),
    "53300": _Kind(
        DatabaseExhausted,
        "takes no more connections",
        "Close some elsewhere, lower pool_size, or raise the limit: max_connections, or the "
        "CONNECTION LIMIT of the role or the database.",
    ),
    "53": _Kind(DatabaseExhausted, "has run out of something", "Raise its limit, then try again."),
    "57014": _Kind(
        DatabaseBusy,
        "cancelled the statement",
        "An administrator cancelled it, or it exceeded statement_timeout. Try again, or raise "
        "statement_timeout.",
    ),
    "55P03": _Kind(
        DatabaseBusy,
        "did not get a lock in time",
        "Try again once the transaction that holds it has ended.",
    ),
    "40": _Kind(DatabaseBusy, "gave the statement up in favour of another", "Try again."),
    "28": _Kind(
        DatabaseDenied,
        "does not let the role in",
        "Check the user and the password in the address, and the server's pg_hba.conf.",
    ),
    "3D": _Kind(DatabaseDenied, "is not there", "Create it, or correct the name in the address."),
}
_NO_PARTITION: Final = _Kind(
    DatabaseError,
    "cannot move a job to the history",
    "The history has no partition for its day. Workers create it within a minute: is one running? "
    "`penstock doctor` says what prevents them.",
)
_REFUSED: Final = _Kind(
    DatabaseError,
    "refuses",
    "Repeating the same call will fail again. Check the arguments, your own constraints and "
    "triggers, and run `penstock doctor`.",
)
NOTHING_DONE: Final = (
    "Nothing was sent. Check that the server is running and that the address is correct."
)


def database_error(
    error: BaseException, place: str, schema: str | None = None
) -> DatabaseError | None:
    """Our error for what Postgres refused; None if it did not answer at all.

    Given the `schema` of the queue, it also names a function that is not ours, such as a trigger's.
    """
    state = failures.sqlstate(error)
    if not state or (failures.is_lost(error) and state not in _KINDS):
        return None
    kind = _kind(error, state)
    why = failures.message(error).rstrip(".")
    if schema is not None and (function := failures.function_of_theirs(error, schema)) is not None:
        why += f", in the function {function}"
    told = kind.error(f"{place} {kind.told}: {why} ({state}). {kind.remedy}", sqlstate=state)
    told.__cause__ = error
    return told


def _kind(error: BaseException, state: str) -> _Kind:
    if failures.is_partition_missing(error):
        return _NO_PARTITION
    if state == failures.PARTITION_DETACHED:
        return _NO_PARTITION._replace(remedy=failures.hint(error) or _NO_PARTITION.remedy)
    found = (kind for key, kind in _KINDS.items() if state.startswith(key))
    return next(found, _REFUSED)


def database_lost(error: BaseException, place: str, *, is_sent: bool, doubt: str) -> DatabaseLost:
    """A connection that broke or cannot be had; `doubt` says what follows if it was sent."""
    why = failures.why(error)
    cause = error if str(error) else TimeoutError(why)
    remedy = doubt if is_sent else NOTHING_DONE
    told = DatabaseLost(
        f"{place} was lost or could not be reached: {why}. {remedy}",
        sqlstate=failures.sqlstate(error) or None,
        is_sent=is_sent,
    )
    told.__cause__ = cause
    return told
