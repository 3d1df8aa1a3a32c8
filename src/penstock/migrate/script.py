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

    `rls` switches row level security on or off. If it is None, row level security stays as it is,
    which is on if `has_rls` is true. `renaming` has the statements that `find_rename` returns. They
    come first.
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
    """Return the SQL of `sql_text` as a list, without BEGIN and COMMIT and without a renaming.

    Use this to run the statements in a transaction of your own.
    """
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
