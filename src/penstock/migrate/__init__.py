"""Bring a database to the schema that this version needs, and say how far it is.

await migrate("postgresql://localhost/shop")
"""

from penstock.migrate.ledger import MigrationStatus, applied
from penstock.migrate.runner import check, covered, has_rls, migrate, prepare, status
from penstock.migrate.script import sql_text, statements

__all__ = [
    "MigrationStatus",
    "applied",
    "check",
    "covered",
    "has_rls",
    "migrate",
    "prepare",
    "sql_text",
    "statements",
    "status",
]
