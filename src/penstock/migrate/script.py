"""The migrations as one script, for people who apply SQL by their own means."""

from __future__ import annotations

from collections.abc import Collection

from penstock.migrate.plan import plan
from penstock.sql import quote, statement


def sql_text(
    schema: str = "penstock", *, applied: Collection[int] = (), to: int | None = None
) -> str:
    """The SQL that leads from the migrations applied already to migration `to`, or the newest.

    penstock migrate --sql | psql --single-transaction …
    """
    pieces = statements(schema, applied=applied, to=to)
    if not pieces:
        return "-- Nothing is pending.\n"
    return "\n".join(["BEGIN;\n", *pieces, "COMMIT;\n"])


def statements(
    schema: str = "penstock", *, applied: Collection[int] = (), to: int | None = None
) -> list[str]:
    """The pieces of that script, for a transaction that is not theirs."""
    steps = [step.sql(schema) for step in plan(applied, to, schema)]
    if applied or not steps:
        return steps
    return [
        f"CREATE SCHEMA IF NOT EXISTS {quote(schema)};\n",
        f"{statement('create_ledger', schema).rstrip()};\n",
        *steps,
    ]
