"""What a database error means for the one who asked."""

from __future__ import annotations

import asyncio
import re
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
PARTITION_DETACHED = "PS018"

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

# Gone when asked again: serialization, deadlock, lock or statement timeout, out of some resource,
# an error of the server's disk.
_PASSING_CLASSES = ("40", "53", "55", "57", "58")
# A pooler that was not noticed, or said to bear prepared statements, and gave us another server.
_PREPARED_ELSEWHERE = ("26000", "42P05")
# A transaction stayed open for too long, because its client stood still.
_TRANSACTION_TIMEOUTS = ("25P03", "25P04")
# A standby, a primary that is being replaced, or a server that an administrator keeps as it is.
READ_ONLY = "25006"
OUT_OF_MEMORY = "53200"
# No statement can be written, whatever it is: read-only, disk full, memory or connections used up.
_UNAVAILABLE = (READ_ONLY, "53100", OUT_OF_MEMORY, "53300")

_CHECK_VIOLATION = "23514"
_JOB = "job"
_HISTORY = "job_history"
_NO_RIGHT = "42501"
_NO_SCHEMA = ("3F000", "42P01", "42883")
# A function in the context of an error. `_OURS` recognises ours if the search path has its schema.
_NAME = r'(?:"[^"]+"|[A-Za-z_][A-Za-z0-9_$]*)'
_FUNCTION = re.compile(rf"(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})\(")
_OURS = re.compile(r"_v\d+$|^enqueue$")
# A login or its database is refused, which concerns every statement.
_NO_LOGIN = ("28000", "28P01", "3D000")


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
    state = sqlstate(error)
    return state[:2] in _PASSING_CLASSES or state in (
        *_PREPARED_ELSEWHERE,
        *_TRANSACTION_TIMEOUTS,
        READ_ONLY,
    )


def is_lasting(error: BaseException) -> bool:
    """Whether Postgres refused the statement, and will do so again: somebody has to mend it."""
    return bool(sqlstate(error)) and not (is_unavailable(error) or is_passing(error))


def is_unavailable(error: BaseException) -> bool:
    """Whether the database as a whole cannot serve now: it is out of reach, or takes no writes.

    Other statements fail like this one until that has passed.
    """
    return is_lost(error) or sqlstate(error) in _UNAVAILABLE


def is_read_only(error: BaseException) -> bool:
    """Whether the server takes no writes. One that does may be reached by another connection."""
    return sqlstate(error) == READ_ONLY


def is_of_server(error: BaseException) -> bool:
    """Whether the server lacks a resource or is damaged. That may pass, but no lock or conflict
    causes it, so the operator should know at once."""
    return sqlstate(error)[:2] in ("53", "58")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the server has no memory for a statement; it may have some for a smaller one."""
    return sqlstate(error) == OUT_OF_MEMORY


def is_partition_missing(error: BaseException) -> bool:
    """Whether a row found no partition of the history. A CHECK of ours would be named."""
    return (
        sqlstate(error) == _CHECK_VIOLATION
        and _field(error, "table_name") == _HISTORY
        and _field(error, "constraint_name") is None
    )


def is_of_row(error: BaseException) -> bool:
    """Whether a lasting error may be the fault of the row that was written.

    A missing right, function, table or partition is not: another row would fare no better.
    """
    state = sqlstate(error)
    is_of_database = state in (_NO_RIGHT, *_NO_SCHEMA, *_NO_LOGIN, PARTITION_DETACHED)
    return not is_of_database and not is_partition_missing(error)


def is_schema_missing(error: BaseException, schema: str) -> bool:
    """Whether the database has no such table or function of ours: migrations have not run."""
    return sqlstate(error) in _NO_SCHEMA and function_of_theirs(error, schema) is None


def function_of_theirs(error: BaseException, schema: str) -> str | None:
    """The function, such as a trigger's, that Postgres was in when it failed, unless it is ours."""
    lines = (_field(error, "context") or "").splitlines()
    # The innermost comes first. Its line is translated, except for the name of the language.
    line = next((line for line in lines if "PL/pgSQL" in line), "")
    if (found := _FUNCTION.search(line)) is None:
        return None
    within, name = found["schema"], found["name"]
    is_ours = _OURS.search(name) if within is None else within.strip('"') == schema
    return None if is_ours else found[0].rstrip("(")


def is_refused(error: BaseException) -> bool:
    """Whether the role has no right to what it asked."""
    return sqlstate(error) == _NO_RIGHT


def is_state(error: BaseException, state: str) -> bool:
    """Whether Postgres raised this very SQLSTATE."""
    return sqlstate(error) == state


def message(error: BaseException) -> str:
    """What Postgres itself said, without what drivers put around it."""
    told = next(filter(_own_state, _layers(error)), error)
    return str(told).partition("\n")[0]


def why(error: BaseException) -> str:
    """The message of an error, or words for its kind: timeouts and cancellations have none."""
    if told := message(error).rstrip("."):
        return told
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, asyncio.CancelledError):
        return "it was cancelled"
    return type(error).__name__


def cause(error: BaseException) -> str:
    """The same as `why`, with the SQLSTATE."""
    state = sqlstate(error)
    return f"{why(error)} (SQLSTATE {state})" if state else why(error)


def detail(error: BaseException) -> str | None:
    """What Postgres said beside its message."""
    return _field(error, "detail", "message_detail")


def hint(error: BaseException) -> str | None:
    """The hint of Postgres."""
    return _field(error, "hint", "message_hint")


def constraint(error: BaseException) -> str | None:
    """The constraint that a row does not satisfy."""
    return _field(error, "constraint_name")


def breaks_constraint(error: BaseException) -> bool:
    """Whether a job's own row breaks a constraint, and not one of a table that a trigger fills."""
    table = _field(error, "table_name") or ""
    is_own = table == _JOB or table.startswith(_HISTORY)
    return is_own and constraint(error) is not None


def with_hint(error: BaseException) -> str:
    """What Postgres said, as a sentence, and what it proposed to do."""
    sentence = message(error).rstrip(".") + "."
    return " ".join(filter(None, (sentence, hint(error))))


def _field(error: BaseException, name: str, name_in_psycopg: str | None = None) -> str | None:
    """A field of Postgres' error, wherever the driver keeps it."""
    for one in _layers(error):
        told = getattr(one, name, None) or getattr(
            getattr(one, "diag", None), name_in_psycopg or name, None
        )
        if isinstance(told, str) and _own_state(one):
            return told
    return None


def sqlstate(error: BaseException) -> str:
    """Postgres's code for the error; nothing if it did not come from there."""
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


def cancels() -> int:
    """How often the running task has been told to end so far."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def raise_if_cancelled(error: BaseException, cancels_before: int = 0) -> None:
    """Raise CancelledError if the running task was told to end while it waited for a statement.

    asyncpg breaks the statement off and may raise another error than the cancellation, such as
    that the connection was closed. Whoever tries again after errors would then never end.
    """
    if cancels() > cancels_before:
        raise asyncio.CancelledError from error
