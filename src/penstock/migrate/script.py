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
    steps = plan(applied, to, schema)
    if not steps:
        return "-- Nothing is pending.\n"
    start = (
        []
        if applied
        else [
            f"CREATE SCHEMA IF NOT EXISTS {quote(schema)};\n",
            f"{statement('create_ledger', schema).rstrip()};\n",
        ]
    )
    return "\n".join(["BEGIN;\n", *start, *(step.sql(schema) for step in steps), "COMMIT;\n"])
