"""Bring a database to the schema that this version needs, and say how far it is.

await migrate("postgresql://localhost/shop")
"""

from penstock.migrate.plan import MigrationStatus, applied
from penstock.migrate.plan import create as create_ledger
from penstock.migrate.plan import lock as lock_migrations
from penstock.migrate.runner import (
    check,
    covered,
    former_name,
    has_rls,
    migrate,
    prepare,
    renamed_from,
    renaming,
    status,
)
from penstock.migrate.script import sql_text, statements

__all__ = [
    "MigrationStatus",
    "applied",
    "check",
    "covered",
    "create_ledger",
    "former_name",
    "has_rls",
    "lock_migrations",
    "migrate",
    "prepare",
    "renamed_from",
    "renaming",
    "sql_text",
    "statements",
    "status",
]
