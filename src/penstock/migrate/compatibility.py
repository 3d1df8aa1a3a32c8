"""Whether a schema that is newer than this version of Penstock still serves it.

Functions carry their version in their names and outlive their successors by one minor release: as
long as all that this version calls are there, an old worker may start during a rolling deploy.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from penstock.sql import statement
from penstock.store import Executor

_VERSIONED = re.compile(r"(?P<verb>.+?)(?:_v(?P<version>\d+))?\.sql")


async def serves_us(connection: Executor, schema: str) -> bool:
    """Whether the schema has every function that this version calls."""
    return not await connection.fetch(
        statement("missing_functions", schema), schema, newest_functions()
    )


@cache
def newest_functions() -> list[str]:
    """The newest version of each function that this version of Penstock has a file for."""
    newest: dict[str, int] = {}
    for entry in (files("penstock.sql") / "functions").iterdir():
        if found := _VERSIONED.fullmatch(entry.name):
            version = int(found["version"] or 0)
            newest[found["verb"]] = max(version, newest.get(found["verb"], 0))
    return [f"{verb}_v{version}" if version else verb for verb, version in sorted(newest.items())]
