"""Which rights a role lacks, and how to grant them."""

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

# More lines than that are no remedy that anybody reads.
GRANTS_SHOWN = 5

_FUNCTION = re.compile(r"\b[a-z_]+_v\d+(?=\()")


class Lack(Struct, frozen=True):
    """A privilege that the role does not have."""

    kind: str
    name: str
    privilege: str

    @property
    def function(self) -> str | None:
        """The bare name, if it is a function's."""
        if self.kind != "function":
            return None
        return self.name.partition("(")[0].rpartition(".")[2]


async def lacking(
    on: Executor,
    schema: str,
    *,
    tables: Iterable[Mapping[str, str]],
    functions: Sequence[str],
) -> tuple[Lack, ...]:
    """Those of the rights that the role of a connection lacks; what does not exist is not told."""
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
    return tuple(Lack(row["kind"], row["name"], row["privilege"]) for row in rows)


async def check_worker(on: Executor, schema: str, place: str) -> None:
    """NotAllowed if the role lacks a right that a worker needs."""
    called, reached = worker_functions()
    tables = (CLIENT_TABLES, WORKER_TABLES)
    lacks = await lacking(on, schema, tables=tables, functions=reached)
    found = await read_role_rights(on, schema) if lacks else None
    if found is None:
        return
    if found.is_secured:
        # What workers call runs with the owner's rights then.
        lacks = tuple(each for each in lacks if each.kind == "schema" or each.function in called)
    if lacks:
        needs = listed(sorted({f"{each.privilege} on {each.kind} {each.name}" for each in lacks}))
        remedy = _remedy(lacks, found)
        raise NotAllowed(found.role, f"a worker needs {needs}", remedy, place=place)


def _remedy(lacks: Sequence[Lack], found: RoleRights) -> str:
    lines = grants(lacks, found.schema, found.role)
    if len(lines) > GRANTS_SHOWN or (found.is_secured and not found.is_worker):
        return found.remedy
    return f"Grant it as the owner of the schema, {found.owner}: {' '.join(lines)}"


def grants(lacks: Sequence[Lack], schema: str, role: str) -> list[str]:
    """The statements that give a role what it lacks."""
    by_object = groupby(lacks, key=lambda lack: (lack.kind, lack.name))
    return [
        f"GRANT {', '.join(lack.privilege for lack in lacks)} "
        f"ON {_object(schema, kind, name)} TO {quote(role)};"
        for (kind, name), lacks in by_object
    ]


def _object(schema: str, kind: str, name: str) -> str:
    match kind:
        case "schema":
            return f"SCHEMA {quote(schema)}"
        case "function":
            return f"FUNCTION {name}"  # Postgres has quoted it, arguments and all.
        case "sequence":
            return f"SEQUENCE {quote(schema)}.{quote(name)}"
    return f"{quote(schema)}.{quote(name)}"


@cache
def worker_functions() -> tuple[frozenset[str], tuple[str, ...]]:
    """The functions that a worker calls, and these with all that they call in turn."""
    called = frozenset(newest()[name] for name in WORKER_FUNCTIONS)
    reached, left = set(called), list(called)
    while left:
        for name in _FUNCTION.findall(function_body(left.pop(), "penstock")):
            if name not in reached:
                reached.add(name)
                left.append(name)
    return called, tuple(sorted(reached))
