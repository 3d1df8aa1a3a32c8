"""A schema that was renamed: its functions have its former name built in, and fail."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.migrate.compatibility import newest_functions
from penstock.sql import statement
from penstock.store import Executor


async def former_name(
    connection: Executor, schema: str, functions: Sequence[str] | None = None
) -> str | None:
    """The name that the functions still look for, as an identifier; None if it is the schema's.

    `functions` are those of an application, else they are the queue's.
    """
    ours = newest_functions() if functions is None else list(functions)
    rows = await connection.fetch(statement("former_name", schema), schema, ours)
    return str(rows[0]["name"]) if rows else None


async def renaming(connection: Executor, schema: str, former: str) -> list[str]:
    """The statements that lead the functions to the schema's present name."""
    quoted = former if former.startswith('"') else f'"{former}"'
    rows = await connection.fetch(statement("rename_functions", schema), schema, former, quoted)
    return [row["statement"] for row in rows]
