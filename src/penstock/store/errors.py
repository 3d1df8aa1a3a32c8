"""Classify database errors and translate them to Penstock's exceptions, with a remedy."""

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

# SQLSTATEs of our own, which the SQL functions raise.
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

# A retry may succeed: serialization failure, deadlock, lock or statement timeout, an exhausted
# resource, an error of the server's disk.
_TRANSIENT_CLASSES = ("40", "53", "55", "57", "58")
# A pooler gave us another server, where the prepared statement is missing or another one has its
# name. The pooler was not detected, or `prepared_statements` was set in spite of it.
_PREPARED_ELSEWHERE = ("26000", "42P05")
# The transaction stayed open for too long because its client was frozen.
_TRANSACTION_TIMEOUTS = ("25P03", "25P04")
# A standby, a primary during a failover, or a server that an administrator made read-only.
READ_ONLY = "25006"
OUT_OF_MEMORY = "53200"
# The server accepts no writes at all: read-only, disk full, memory or connections used up.
_UNAVAILABLE = (READ_ONLY, "53100", OUT_OF_MEMORY, "53300")

_CHECK_VIOLATION = "23514"
_JOB = "job"
_HISTORY = "job_history"
_NO_RIGHT = "42501"
_NO_SCHEMA = ("3F000", "42P01", "42883")
# A function in the context of an error. `_OURS` recognises our functions where the context leaves
# out the schema because it is in the search path.
_NAME = r'(?:"[^"]+"|[A-Za-z_][A-Za-z0-9_$]*)'
_FUNCTION = re.compile(rf"(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})\(")
_OURS = re.compile(r"_v\d+$|^enqueue$")
# The server refuses the login, or the database does not exist: every statement fails.
_NO_LOGIN = ("28000", "28P01", "3D000")


def is_lost(error: BaseException) -> bool:
    """Return whether the connection broke, so that the statement may or may not have run."""
    if isinstance(error, asyncpg.QueryCanceledError | PenstockError):  # Ours may be a TimeoutError.
        return False
    return isinstance(error, _LOST)


def never_arrived(error: BaseException) -> bool:
    """Return whether there was no connection at all, so that the statement has not run."""
    return isinstance(error, _UNSENT)


def is_transient(error: BaseException) -> bool:
    """Return whether the statement had no effect and may succeed when it is retried."""
    state = sqlstate(error)
    return state[:2] in _TRANSIENT_CLASSES or state in (
        *_PREPARED_ELSEWHERE,
        *_TRANSACTION_TIMEOUTS,
        READ_ONLY,
    )


def is_permanent(error: BaseException) -> bool:
    """Return whether Postgres will refuse the statement again until somebody fixes the cause."""
    return bool(sqlstate(error)) and not (is_unavailable(error) or is_transient(error))


def is_unavailable(error: BaseException) -> bool:
    """Return whether the whole database is down: it cannot be reached, or accepts no writes.

    All other statements fail too, until the database has recovered.
    """
    return is_lost(error) or sqlstate(error) in _UNAVAILABLE


def is_read_only(error: BaseException) -> bool:
    """Return whether the server is read-only. A new connection may reach the primary."""
    return sqlstate(error) == READ_ONLY


def is_server_fault(error: BaseException) -> bool:
    """Return whether the server ran out of a resource or is damaged.

    Such an error may be transient. But no lock or conflict causes it, so operators should hear of
    it at once.
    """
    return sqlstate(error)[:2] in ("53", "58")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the server lacked memory for the statement. A smaller one may succeed."""
    return sqlstate(error) == OUT_OF_MEMORY


def is_partition_missing(error: BaseException) -> bool:
    """Return whether the history has no partition for a row.

    Postgres reports it as a CHECK violation without a name; all our CHECK constraints have one.
    """
    return (
        sqlstate(error) == _CHECK_VIOLATION
        and _field(error, "table_name") == _HISTORY
        and _field(error, "constraint_name") is None
    )


def is_row_fault(error: BaseException) -> bool:
    """Return whether a permanent error may be caused by the row that was written.

    An error about a missing right, function, table or partition is not caused by the row: other
    rows would fail as well.
    """
    state = sqlstate(error)
    is_of_database = state in (_NO_RIGHT, *_NO_SCHEMA, *_NO_LOGIN, PARTITION_DETACHED)
    return not is_of_database and not is_partition_missing(error)


def is_schema_missing(error: BaseException, schema: str) -> bool:
    """Return whether one of our tables or functions is missing: migrations have not run."""
    return sqlstate(error) in _NO_SCHEMA and foreign_function(error, schema) is None


def foreign_function(error: BaseException, schema: str) -> str | None:
    """Return the name of the function that failed, if it is not one of Penstock's.

    It may be a trigger function, for example. Return None for Penstock's own functions, and if no
    function failed.
    """
    lines = (_field(error, "context") or "").splitlines()
    # The innermost call comes first. The server translates its line, except the language's name.
    line = next((line for line in lines if "PL/pgSQL" in line), "")
    if (call := _FUNCTION.search(line)) is None:
        return None
    call_schema, name = call["schema"], call["name"]
    is_ours = _OURS.search(name) if call_schema is None else call_schema.strip('"') == schema
    return None if is_ours else call[0].rstrip("(")


def is_refused(error: BaseException) -> bool:
    """Return whether the role lacks a right that the statement needs."""
    return sqlstate(error) == _NO_RIGHT


def is_state(error: BaseException, state: str) -> bool:
    """Return whether the error has this SQLSTATE."""
    return sqlstate(error) == state


def message(error: BaseException) -> str:
    """Return Postgres's own message, without what drivers add to it."""
    original = next(filter(_own_state, _layers(error)), error)
    return str(original).partition("\n")[0]


def why(error: BaseException) -> str:
    """Return the message of an error, or a description of an error without one.

    A timeout, for example, has no message.
    """
    if text := message(error).rstrip("."):
        return text
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, asyncio.CancelledError):
        return "it was cancelled"
    return type(error).__name__


def cause(error: BaseException) -> str:
    """Return the same as `why`, with the SQLSTATE if there is one."""
    state = sqlstate(error)
    return f"{why(error)} (SQLSTATE {state})" if state else why(error)


def detail(error: BaseException) -> str | None:
    """Return the DETAIL of a Postgres error."""
    return _field(error, "detail", "message_detail")


def hint(error: BaseException) -> str | None:
    """Return the HINT of a Postgres error."""
    return _field(error, "hint", "message_hint")


def constraint(error: BaseException) -> str | None:
    """Return the name of the constraint that a row violates."""
    return _field(error, "constraint_name")


def breaks_constraint(error: BaseException) -> bool:
    """Return whether the row of a job violates a constraint.

    A row that a trigger wrote to another table does not count.
    """
    table = _field(error, "table_name") or ""
    is_own = table == _JOB or table.startswith(_HISTORY)
    return is_own and constraint(error) is not None


def with_hint(error: BaseException) -> str:
    """Return Postgres's message as a sentence, followed by its hint."""
    sentence = message(error).rstrip(".") + "."
    return " ".join(filter(None, (sentence, hint(error))))


def _field(error: BaseException, name: str, name_in_psycopg: str | None = None) -> str | None:
    """Return a field of a Postgres error, wherever the driver keeps it."""
    for layer in _layers(error):
        value = getattr(layer, name, None) or getattr(
            getattr(layer, "diag", None), name_in_psycopg or name, None
        )
        if isinstance(value, str) and _own_state(layer):
            return value
    return None


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error; an empty text if it did not come from Postgres."""
    return next(filter(None, map(_own_state, _layers(error))), "")


def _own_state(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else ""


def _layers(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it wraps. SQLAlchemy and Django wrap errors of the driver."""
    layer: BaseException | None = error
    while layer is not None and not isinstance(layer, PenstockError):
        yield layer
        layer = getattr(layer, "orig", None) or layer.__cause__


def cancels() -> int:
    """Return how many times the running task has been cancelled so far."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def raise_if_cancelled(error: BaseException, cancels_before: int = 0) -> None:
    """Raise CancelledError if the running task was cancelled while it waited for a statement.

    When a task is cancelled, asyncpg aborts the statement, and may raise another error than
    CancelledError, such as one about a closed connection. Code that retries after errors would then
    never end.
    """
    if cancels() > cancels_before:
        raise asyncio.CancelledError from error


_QUEUE_ERRORS: dict[str, Callable[..., PenstockError]] = {
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
    """Return Penstock's exception for an error that its SQL functions raised, or None.

    The DETAIL of such an error is a JSON array with the arguments of the exception.
    """
    for state, exception in _QUEUE_ERRORS.items():
        if is_state(error, state):
            return exception(*json.loads(detail(error) or "[]"))
    return None


class RoleRights(Struct, frozen=True, kw_only=True):
    """What the role of a connection may do in a schema."""

    schema: str
    role: str
    owner: str
    is_secured: bool
    """Whether row level security is on."""
    is_confined: bool
    """Whether row level security applies to this role. It does not apply to the owner."""
    is_worker: bool
    is_app: bool

    @property
    def remedy(self) -> str:
        """A sentence that says how to give this role a right that it lacks."""
        worker, app = roles(self.schema)
        owner = f"the owner of the schema, {self.owner}"
        if not self.is_secured:
            return (
                f"It lacks this right in the schema {self.schema}: log in as {owner}; or give "
                f"{worker} and {app} their rights again, with `penstock migrate --rls`."
            )
        works, enqueues = self._grant(worker), self._grant(app)
        if self.is_worker and self.is_app:
            return f"It has the rights of workers and of apps. All other rights are for {owner}."
        if self.is_worker:
            return (
                f"It is a role of workers, a member of {worker}. To enqueue and read jobs, run "
                f"`{enqueues}` and name a tenant. To change settings, log in as {owner}."
            )
        if self.is_app:
            return (
                f"It is a role of apps, a member of {app}. A worker needs `{works}`. To change "
                f"settings or read all tenants, log in as {owner}."
            )
        return (
            f"It is neither a member of {worker} nor of {app}. Run `{works}` for a worker, or "
            f"`{enqueues}` for a program that enqueues, or log in as {owner}."
        )

    def _grant(self, role: str) -> str:
        return f"GRANT {quote(role)} TO {quote(self.role)};"


async def read_role_rights(on: Executor, schema: str) -> RoleRights | None:
    """Read the rights of the connection's role, or return None if the schema does not exist."""
    row = await on.fetchrow(statement("get_standing", schema), schema, *roles(schema))
    return None if row is None else RoleRights(schema=schema, **dict(row))


async def permission_error(
    error: BaseException, schema: str, place: str, on: Executor | None = None
) -> NotAllowed:
    """Return NotAllowed for a missing right, with a remedy for the role.

    `on` is a working connection of the same role, from which the rights of the role are read.
    Without it, the remedy is a general one.
    """
    rights = None
    if on is not None:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            rights = await read_role_rights(on, schema)
    if rights is not None:
        return permission_error_for(rights, error, place)
    worker, app = roles(schema)
    remedy = _foreign_function_remedy(error, schema) or (
        f"Workers log in as a member of {worker}, programs that enqueue as one of {app}; all "
        "the rest is for the owner of the schema."
    )
    return NotAllowed(None, message(error), remedy, place=place)


def permission_error_for(rights: RoleRights, error: BaseException, place: str) -> NotAllowed:
    """Return NotAllowed for a missing right, with a remedy that fits the known rights."""
    remedy = _foreign_function_remedy(error, rights.schema) or rights.remedy
    return NotAllowed(rights.role, message(error), remedy, place=place)


def _foreign_function_remedy(error: BaseException, schema: str) -> str | None:
    function = foreign_function(error, schema)
    if function is None:
        return None
    return (
        f"The function {function}, which is not Penstock's, needs it: grant the right to "
        "this role, or make the function SECURITY DEFINER."
    )


class _Kind(NamedTuple):
    error: type[DatabaseError]
    problem: str
    remedy: str


# By SQLSTATE or its first characters. The first key that matches is used.
_KINDS: Final = {
    "25006": _Kind(
        DatabaseReadOnly,
        "takes no writes",
        "It is a standby, or set to read only: try again after the failover, or let the address "
        "lead to the primary.",
    ),
    "53100": _Kind(
        DatabaseExhausted, "has no disk space left", "Make room on its disk, then try again."
    ),
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
    "53": _Kind(DatabaseExhausted, "has run out of a resource", "Raise its limit, then try again."),
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
    "40": _Kind(
        DatabaseBusy, "rolled the statement back because it conflicted with another", "Try again."
    ),
    "28": _Kind(
        DatabaseDenied,
        "refused the login of the role",
        "Check the user and the password in the address, and the server's pg_hba.conf.",
    ),
    "3D": _Kind(DatabaseDenied, "does not exist", "Create it, or correct the name in the address."),
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
    """Return Penstock's exception for an error that Postgres reported.

    Return None if Postgres reported none, or if the connection was lost. If `schema` is given, the
    message also names a failed function that is not Penstock's, such as a trigger function.
    """
    state = sqlstate(error)
    if not state or (is_lost(error) and state not in _KINDS):
        return None
    kind = _kind(error, state)
    why = message(error).rstrip(".")
    if schema is not None and (function := foreign_function(error, schema)) is not None:
        why += f", in the function {function}"
    exception = kind.error(
        f"{place} {kind.problem}: {why} ({state}). {kind.remedy}", sqlstate=state
    )
    exception.__cause__ = error
    return exception


def _kind(error: BaseException, state: str) -> _Kind:
    if is_partition_missing(error):
        return _NO_PARTITION
    if state == PARTITION_DETACHED:
        return _NO_PARTITION._replace(remedy=hint(error) or _NO_PARTITION.remedy)
    kinds = (kind for key, kind in _KINDS.items() if state.startswith(key))
    return next(kinds, _REFUSED)


def database_lost(error: BaseException, place: str, *, is_sent: bool, doubt: str) -> DatabaseLost:
    """Return DatabaseLost for a connection that broke or could not be opened.

    If the statement was sent, it may or may not have run: `doubt` then says what to do.
    """
    reason = why(error)
    cause = error if str(error) else TimeoutError(reason)
    remedy = doubt if is_sent else NOTHING_SENT
    exception = DatabaseLost(
        f"{place} was lost or could not be reached: {reason}. {remedy}",
        sqlstate=sqlstate(error) or None,
        is_sent=is_sent,
    )
    exception.__cause__ = cause
    return exception
