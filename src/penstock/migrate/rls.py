"""Switch row level security, under which a tenant's transactions see only that tenant's rows.

Whether it is on is read from the database. A later migration does not switch it on or off. If it is
on, the migration also protects the tables that it adds.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from penstock.errors import ConfigError, RolesUnfit
from penstock.migrate.plan import MigrationStep
from penstock.sql import rls, statement
from penstock.store import Executor, errors


async def is_on(connection: Executor, schema: str) -> bool:
    """Return whether row level security is on in a schema."""
    return bool(await connection.fetchval(statement("has_rls", schema), schema))


def check_schema(schema: str, requested: bool | None) -> None:
    """Raise `ConfigError` if row level security is requested for the schema `public`.

    Row level security would also close the tables that other applications have in that schema.
    """
    if requested and schema == "public":
        raise ConfigError(
            "schema",
            schema,
            "a schema that only the queue uses, because row level security protects all tables "
            "in it",
        )


def build_scripts(
    steps: Sequence[MigrationStep], schema: str, *, current: bool, requested: bool | None
) -> list[str]:
    """Return the SQL of the steps, and the scripts that switch row level security.

    `current` says whether row level security is on. If `requested` is None, it stays as it is.
    """
    steps_sql = [step.sql(schema) for step in steps]
    removes_all = bool(steps) and steps[-1].direction == "down" and steps[-1].number == 1
    if requested is False or removes_all:
        return [*([rls("off", schema)] if current else []), *steps_sql]
    on = [rls("roles", schema), rls("on", schema)]
    if not (requested or current):
        return steps_sql
    if current and any(step.direction == "down" for step in steps):
        # A step down could not remove what policies depend on.
        return [rls("off", schema), *steps_sql, *on]
    return [*steps_sql, *(on if requested or steps else [])]


def translate_error(error: asyncpg.PostgresError) -> Exception:
    """Return `RolesUnfit` if the scripts refused the roles, or else the error itself."""
    if errors.is_state(error, errors.ROLES_UNFIT):
        return RolesUnfit(error.args[0], errors.detail(error) or "")
    return error
