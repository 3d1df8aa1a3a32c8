"""Whether a schema that is newer than this version of Penstock still serves it.

Functions carry their version in their names and outlive their successors by one minor release: as
long as all that this version calls are there, an old worker may start during a rolling deploy.
"""

from __future__ import annotations

import re
from functools import cache

from penstock.sql import functions, statement
from penstock.store import Executor

_VERSIONED = re.compile(r"(?P<verb>.+?)(?:_v(?P<version>\d+))?")


async def serves_us(connection: Executor, schema: str) -> bool:
    """Whether the schema has every function that this version calls."""
    return not await connection.fetch(
        statement("missing_functions", schema), schema, newest_functions()
    )


@cache
def newest_functions() -> list[str]:
    """The newest version of each function that this version of Penstock has a file for."""
    newest: dict[str, int] = {}
    for name in functions():
        if found := _VERSIONED.fullmatch(name):
            version = int(found["version"] or 0)
            newest[found["verb"]] = max(version, newest.get(found["verb"], 0))
    return [f"{verb}_v{version}" if version else verb for verb, version in sorted(newest.items())]
