"""What a database error means for the one who asked, and what to do about it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import asyncpg
from msgspec import Struct

from penstock.errors import (
    BatchClosed,
    BatchNotFound,
    ChildStarted,
    DatabaseBusy,
    DatabaseDenied,
    DatabaseError,
    DatabaseExhausted,
    DatabaseLost,
    DatabaseReadOnly,
    IdempotencyMismatch,
    NotAllowed,
    ParentNotFound,
    PenstockError,
    StepUnclear,
    TenantMismatch,
    UniqueConflict,
    WorkflowCycle,
    WorkflowNotFound,
)
from penstock.sql import quote, roles, statement
from penstock.store.connection import Executor

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


def is_transient(error: BaseException) -> bool:
    """Whether the statement did not happen, and may well succeed when it is tried again."""
    state = sqlstate(error)
    return state[:2] in _PASSING_CLASSES or state in (
        *_PREPARED_ELSEWHERE,
        *_TRANSACTION_TIMEOUTS,
        READ_ONLY,
    )


def is_permanent(error: BaseException) -> bool:
    """Whether Postgres refused the statement, and will do so again: somebody has to mend it."""
    return bool(sqlstate(error)) and not (is_unavailable(error) or is_transient(error))


def is_unavailable(error: BaseException) -> bool:
    """Whether the database as a whole cannot serve now: it is out of reach, or takes no writes.

    Other statements fail like this one until that has passed.
    """
    return is_lost(error) or sqlstate(error) in _UNAVAILABLE


def is_read_only(error: BaseException) -> bool:
    """Whether the server takes no writes. One that does may be reached by another connection."""
    return sqlstate(error) == READ_ONLY


def is_server_fault(error: BaseException) -> bool:
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


def is_row_fault(error: BaseException) -> bool:
    """Whether a lasting error may be the fault of the row that was written.

    A missing right, function, table or partition is not: another row would fare no better.
    """
    state = sqlstate(error)
    is_of_database = state in (_NO_RIGHT, *_NO_SCHEMA, *_NO_LOGIN, PARTITION_DETACHED)
    return not is_of_database and not is_partition_missing(error)


def is_schema_missing(error: BaseException, schema: str) -> bool:
    """Whether the database has no such table or function of ours: migrations have not run."""
    return sqlstate(error) in _NO_SCHEMA and foreign_function(error, schema) is None


def foreign_function(error: BaseException, schema: str) -> str | None:
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


_REFUSALS: dict[str, Callable[..., PenstockError]] = {
    KEY_MISMATCH: IdempotencyMismatch,
    TENANT_MISMATCH: TenantMismatch,
    UNIQUE_CONFLICT: UniqueConflict,
    BATCH_MISSING: BatchNotFound,
    BATCH_CLOSED: BatchClosed,
    PARENT_MISSING: ParentNotFound,
    CHILD_STARTED: ChildStarted,
    CYCLE: WorkflowCycle,
    WORKFLOW_MISSING: WorkflowNotFound,
    STEP_UNCLEAR: StepUnclear,
}


def queue_error(error: BaseException) -> PenstockError | None:
    """The error that a database's refusal stands for; it is made of the refusal's detail."""
    for state, refusal_of in _REFUSALS.items():
        if is_state(error, state):
            return refusal_of(*json.loads(detail(error) or "[]"))
    return None


class RoleRights(Struct, frozen=True, kw_only=True):
    """A role before a schema."""

    schema: str
    role: str
    owner: str
    is_secured: bool
    """Whether row level security is on."""
    is_confined: bool
    """Whether it holds for this role: the owner is above it."""
    is_worker: bool
    is_app: bool

    @property
    def remedy(self) -> str:
        """What to do when it may not do something."""
        worker, app = roles(self.schema)
        owner = f"the owner of the schema, {self.owner}"
        if not self.is_secured:
            return (
                f"It has no right to that in the schema {self.schema}: log in as {owner}; or make "
                f"{worker} and {app} roles with rights again, with `penstock migrate --rls`."
            )
        works, enqueues = self._grant(worker), self._grant(app)
        if self.is_worker and self.is_app:
            return f"It is both a worker's and an app's; the rest is for {owner}."
        if self.is_worker:
            return (
                f"It is a worker's, a member of {worker}. To enqueue and to look at jobs it needs "
                f"`{enqueues}`, and then a tenant; settings are for {owner}."
            )
        if self.is_app:
            return (
                f"It is an app's, a member of {app}. A worker needs `{works}`; settings, and "
                f"commands that look at all tenants, are for {owner}."
            )
        return (
            f"It is a member neither of {worker} nor of {app}: run `{works}` for a worker, "
            f"`{enqueues}` for a program that enqueues, or log in as {owner}."
        )

    def _grant(self, role: str) -> str:
        return f"GRANT {quote(role)} TO {quote(self.role)};"


async def read_role_rights(on: Executor, schema: str) -> RoleRights | None:
    """The standing of the role that asks; None if there is no such schema."""
    told = statement("get_standing", schema)
    row = await on.fetchrow(told, schema, *roles(schema))
    return None if row is None else RoleRights(schema=schema, **dict(row))


async def permission_error(
    error: BaseException, schema: str, place: str, on: Executor | None = None
) -> NotAllowed:
    """A refusal of Postgres' in words. `on` is where the same role can still be asked."""
    found = None
    if on is not None:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            found = await read_role_rights(on, schema)
    if found is not None:
        return permission_error_for(found, error, place)
    worker, app = roles(schema)
    remedy = _remedy_of_theirs(error, schema) or (
        f"Workers log in as a member of {worker}, programs that enqueue as one of {app}; all "
        "the rest is for the owner of the schema."
    )
    return NotAllowed(None, message(error), remedy, place=place)


def permission_error_for(found: RoleRights, error: BaseException, place: str) -> NotAllowed:
    """The error for a right that Postgres refused to a role whose rights are known."""
    remedy = _remedy_of_theirs(error, found.schema) or found.remedy
    return NotAllowed(found.role, message(error), remedy, place=place)


def _remedy_of_theirs(error: BaseException, schema: str) -> str | None:
    function = foreign_function(error, schema)
    if function is None:
        return None
    return (
        f"The function {function}, which is not Penstock's, asks for it: grant the right to this "
        "role, or make the function SECURITY DEFINER."
    )


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
NOTHING_SENT: Final = (
    "Nothing was sent. Check that the server is running and that the address is correct."
)


def database_error(
    error: BaseException, place: str, schema: str | None = None
) -> DatabaseError | None:
    """Our error for what Postgres refused; None if it did not answer at all.

    Given the `schema` of the queue, it also names a function that is not ours, such as a trigger's.
    """
    state = sqlstate(error)
    if not state or (is_lost(error) and state not in _KINDS):
        return None
    kind = _kind(error, state)
    why = message(error).rstrip(".")
    if schema is not None and (function := foreign_function(error, schema)) is not None:
        why += f", in the function {function}"
    told = kind.error(f"{place} {kind.told}: {why} ({state}). {kind.remedy}", sqlstate=state)
    told.__cause__ = error
    return told


def _kind(error: BaseException, state: str) -> _Kind:
    if is_partition_missing(error):
        return _NO_PARTITION
    if state == PARTITION_DETACHED:
        return _NO_PARTITION._replace(remedy=hint(error) or _NO_PARTITION.remedy)
    found = (kind for key, kind in _KINDS.items() if state.startswith(key))
    return next(found, _REFUSED)


def database_lost(error: BaseException, place: str, *, is_sent: bool, doubt: str) -> DatabaseLost:
    """A connection that broke or cannot be had; `doubt` says what follows if it was sent."""
    reason = why(error)
    cause = error if str(error) else TimeoutError(reason)
    remedy = doubt if is_sent else NOTHING_SENT
    told = DatabaseLost(
        f"{place} was lost or could not be reached: {reason}. {remedy}",
        sqlstate=sqlstate(error) or None,
        is_sent=is_sent,
    )
    told.__cause__ = cause
    return told
