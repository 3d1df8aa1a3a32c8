"""Find the privileges that a role lacks, and the statements that grant them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby

from msgspec import Struct

from penstock.errors import NotAllowed
from penstock.sql import function_body, newest, quote, statement
from penstock.sql.rights import CLIENT_TABLES, WORKER_FUNCTIONS, WORKER_TABLES
from penstock.store import Executor, RoleRights, read_role_rights
from penstock.wording import listed

# An error message with more statements than this would not be read.
MAX_GRANTS_SHOWN = 5

_FUNCTION = re.compile(r"\b[a-z_]+_v\d+(?=\()")


class MissingRight(Struct, frozen=True):
    """A privilege that the role does not have."""

    kind: str
    name: str
    privilege: str

    @property
    def function(self) -> str | None:
        """The function's name without schema and arguments, or None for other objects."""
        if self.kind != "function":
            return None
        return self.name.partition("(")[0].rpartition(".")[2]


async def find_missing_rights(
    on: Executor,
    schema: str,
    *,
    tables: Iterable[Mapping[str, str]],
    functions: Sequence[str],
) -> tuple[MissingRight, ...]:
    """Return the rights to a schema and its objects that the connection's role lacks.

    The mappings in `tables` have the privileges needed on each table, such as "SELECT INSERT".
    Tables and functions that do not exist are left out.
    """
    needs = [
        (name, privilege)
        for table in tables
        for name, privileges in table.items()
        for privilege in privileges.split()
    ]
    names, privileges = zip(*needs, strict=True)
    rows = await on.fetch(
        statement("examine_rights", schema), schema, list(names), list(privileges), list(functions)
    )
    return tuple(MissingRight(row["kind"], row["name"], row["privilege"]) for row in rows)


async def check_worker(on: Executor, schema: str, place: str) -> None:
    """Raise `NotAllowed` if the connection's role lacks a right that a worker needs."""
    called, reached = worker_functions()
    tables = (CLIENT_TABLES, WORKER_TABLES)
    missing = await find_missing_rights(on, schema, tables=tables, functions=reached)
    role = await read_role_rights(on, schema) if missing else None
    if role is None:
        return
    if role.is_secured:
        # Under row level security the functions that workers call run with the owner's rights.
        missing = tuple(
            right for right in missing if right.kind == "schema" or right.function in called
        )
    if missing:
        rights = {f"{right.privilege} on {right.kind} {right.name}" for right in missing}
        remedy = _remedy(missing, role)
        reason = f"a worker needs {listed(sorted(rights))}"
        raise NotAllowed(role.role, reason, remedy, place=place)


def _remedy(missing: Sequence[MissingRight], role: RoleRights) -> str:
    statements = grant_statements(missing, role.schema, role.role)
    if len(statements) > MAX_GRANTS_SHOWN or (role.is_secured and not role.is_worker):
        return role.remedy
    return f"Grant it as the owner of the schema, {role.owner}: {' '.join(statements)}"


def grant_statements(missing: Sequence[MissingRight], schema: str, role: str) -> list[str]:
    """Return the statements that grant a role its missing rights."""
    by_object = groupby(missing, key=lambda right: (right.kind, right.name))
    return [
        f"GRANT {', '.join(right.privilege for right in rights)} "
        f"ON {_object(schema, kind, name)} TO {quote(role)};"
        for (kind, name), rights in by_object
    ]


def _object(schema: str, kind: str, name: str) -> str:
    match kind:
        case "schema":
            return f"SCHEMA {quote(schema)}"
        case "function":
            return f"FUNCTION {name}"  # Postgres has quoted the name, and its arguments follow.
        case "sequence":
            return f"SEQUENCE {quote(schema)}.{quote(name)}"
    return f"{quote(schema)}.{quote(name)}"


@cache
def worker_functions() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the functions that a worker calls directly, and all functions that it uses.

    The second value also includes the functions that are called by other functions.
    """
    called = frozenset(newest()[name] for name in WORKER_FUNCTIONS)
    reached, pending = set(called), list(called)
    while pending:
        for name in _FUNCTION.findall(function_body(pending.pop(), "penstock")):
            if name not in reached:
                reached.add(name)
                pending.append(name)
    return called, tuple(sorted(reached))
