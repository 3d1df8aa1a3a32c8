"""Bring a database to the schema that this version needs, and say how far it is.

await migrate("postgresql://localhost/shop")
"""

from penstock.migrate.ledger import MigrationStatus
from penstock.migrate.runner import check, migrate, status
from penstock.migrate.script import sql_text

__all__ = ["MigrationStatus", "check", "migrate", "sql_text", "status"]
