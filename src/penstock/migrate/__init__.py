"""Migrate a database to the schema that this version needs, and list the applied migrations.

await migrate("postgresql://localhost/shop")
"""

from penstock.migrate.plan import (
    MigrationStatus,
    applied_migrations,
    create_ledger,
    lock_migrations,
)
from penstock.migrate.runner import (
    build_sql,
    check,
    find_former_name,
    find_rename,
    has_rls,
    migrate,
    prepare,
    rename_statements,
    status,
)
from penstock.migrate.script import sql_text, statements

__all__ = [
    "MigrationStatus",
    "applied_migrations",
    "build_sql",
    "check",
    "create_ledger",
    "find_former_name",
    "find_rename",
    "has_rls",
    "lock_migrations",
    "migrate",
    "prepare",
    "rename_statements",
    "sql_text",
    "statements",
    "status",
]
