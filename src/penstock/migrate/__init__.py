"""Bring a database to the schema that this version needs, and say how far it is.

await migrate("postgresql://localhost/shop")
"""

from penstock.migrate.ledger import MigrationStatus, applied
from penstock.migrate.ledger import create as create_ledger
from penstock.migrate.ledger import lock as lock_migrations
from penstock.migrate.runner import check, covered, has_rls, migrate, prepare, status
from penstock.migrate.script import sql_text, statements

__all__ = [
    "MigrationStatus",
    "applied",
    "check",
    "covered",
    "create_ledger",
    "has_rls",
    "lock_migrations",
    "migrate",
    "prepare",
    "sql_text",
    "statements",
    "status",
]
