"""The migrations as one script, for people who apply SQL by their own means."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.migrate import rls as security
from penstock.migrate.plan import plan
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
    """The SQL that leads from the migrations applied already to migration `to`, or the newest.

        penstock migrate --sql | psql --single-transaction …

    Row level security comes out as `rls` wants it, else as it is: `has_rls` says that it is on.
    `renaming` comes first; see `renamed_from`.
    """
    pieces = [f"{piece};\n" for piece in renaming]
    pieces += statements(schema, applied=applied, to=to, rls=rls, has_rls=has_rls)
    if not pieces:
        return "-- Nothing is pending.\n"
    return "\n".join(["BEGIN;\n", *pieces, "COMMIT;\n"])


def statements(
    schema: str = "penstock",
    *,
    applied: Collection[int] = (),
    to: int | None = None,
    rls: bool | None = None,
    has_rls: bool = False,
) -> list[str]:
    """The pieces of that script, for a transaction that is not theirs."""
    security.check(schema, rls)
    steps = security.pieces(plan(applied, to, schema), schema, found=has_rls, wanted=rls)
    if applied or not steps:
        return steps
    return [
        f"CREATE SCHEMA IF NOT EXISTS {quote(schema)};\n",
        f"{statement('create_ledger', schema).rstrip()};\n",
        *steps,
    ]
