"""Whether a schema that is newer than this version of Penstock still serves it.

Functions carry their version in their names and outlive their successors by one minor release: as
long as all that this version calls are there, an old worker may start during a rolling deploy.
"""

from __future__ import annotations

from penstock.sql import newest, statement
from penstock.store import Executor


async def serves_us(connection: Executor, schema: str) -> bool:
    """Whether the schema has every function that this version calls."""
    return not await connection.fetch(
        statement("missing_functions", schema), schema, newest_functions()
    )


def newest_functions() -> list[str]:
    """The newest version of each function that this version of Penstock has a file for."""
    return list(newest().values())
