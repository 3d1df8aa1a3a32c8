"""Write the migrations as one script, for people who apply SQL with tools of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.migrate import rls as security
from penstock.migrate.plan import plan_steps
from penstock.sql import quote, statement


def sql_text(
    schema: str = "penstock",
    *,
    applied: Collection[int] = (),
    to: int | None = None,
    rls: bool | None = None,
    has_rls: bool = False,
    renaming: Sequence[str] = (),
) -> str:
    """Return the SQL that leads from the applied migrations to migration `to`, or the newest.

        penstock migrate --sql | psql --single-transaction …

    `rls` switches row level security; if it is None, that stays as `has_rls` says it is.
    `renaming` are the statements of `find_rename`, which come first.
    """
    scripts = [f"{sql};\n" for sql in renaming]
    scripts += statements(schema, applied=applied, to=to, rls=rls, has_rls=has_rls)
    if not scripts:
        return "-- Nothing is pending.\n"
    return "\n".join(["BEGIN;\n", *scripts, "COMMIT;\n"])


def statements(
    schema: str = "penstock",
    *,
    applied: Collection[int] = (),
    to: int | None = None,
    rls: bool | None = None,
    has_rls: bool = False,
) -> list[str]:
    """Return the same SQL in parts and without a transaction, for callers that have one."""
    security.check_schema(schema, rls)
    steps = plan_steps(applied, to, schema)
    scripts = security.build_scripts(steps, schema, current=has_rls, requested=rls)
    if applied or not scripts:
        return scripts
    return [
        f"CREATE SCHEMA IF NOT EXISTS {quote(schema)};\n",
        f"{statement('create_ledger', schema).rstrip()};\n",
        *scripts,
    ]
