"""Row level security: one tenant's rows for one tenant's transactions.

The database itself says whether it is on. A later migration keeps it so, and brings under it what
it adds.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from penstock.errors import ConfigError, RolesUnfit
from penstock.migrate.plan import Step
from penstock.sql import rls, statement
from penstock.store import Executor, errors


async def is_on(connection: Executor, schema: str) -> bool:
    """Whether row level security is on in a schema."""
    return bool(await connection.fetchval(statement("has_rls", schema), schema))


def check(schema: str, wanted: bool | None) -> None:
    """Refuse a schema that others use as well: their tables would be closed with ours."""
    if wanted and schema == "public":
        raise ConfigError("schema", schema, "a schema of the queue's own, for row level security")


def pieces(steps: Sequence[Step], schema: str, *, found: bool, wanted: bool | None) -> list[str]:
    """The SQL of the steps, with row level security as it is wanted, or else as it was found."""
    steps_sql = [step.sql(schema) for step in steps]
    is_emptied = bool(steps) and steps[-1].direction == "down" and steps[-1].number == 1
    if wanted is False or is_emptied:
        return [*([rls("off", schema)] if found else []), *steps_sql]
    on = [rls("roles", schema), rls("on", schema)]
    if not (wanted or found):
        return steps_sql
    if found and any(step.direction == "down" for step in steps):
        # Policies would hold on to what the way back takes away.
        return [rls("off", schema), *steps_sql, *on]
    return [*steps_sql, *(on if wanted or steps else [])]


def translated(error: asyncpg.PostgresError) -> Exception:
    """What the scripts refuse, in words of the domain."""
    if errors.is_state(error, errors.ROLES_UNFIT):
        return RolesUnfit(error.args[0], errors.detail(error) or "")
    return error
