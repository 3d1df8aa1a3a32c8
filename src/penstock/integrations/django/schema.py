"""Runs Penstock's migrations as operations of Django migrations."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from penstock.integrations.django.settings import ProjectSettings
from penstock.migrate import applied_migrations, build_sql, prepare, statements
from penstock.store import adapt, drive


class MigratePenstock(Operation):
    """Runs one of Penstock's migrations in the transaction of a Django migration.

    If `penstock migrate` has applied it already, there is nothing to do.
    """

    reversible = True
    reduces_to_sql = True

    def __init__(self, number: int) -> None:
        self.number = number

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: Penstock has no models."""

    def database_forwards(self, app_label: str, schema_editor: Any, *_: Any) -> None:
        self._move(app_label, schema_editor, is_forwards=True)

    def database_backwards(self, app_label: str, schema_editor: Any, *_: Any) -> None:
        self._move(app_label, schema_editor, is_forwards=False)

    def describe(self) -> str:
        return f"Penstock's migration {self.number}"

    def _move(self, app_label: str, schema_editor: Any, *, is_forwards: bool) -> None:
        alias = schema_editor.connection.alias
        settings = ProjectSettings.read()
        if alias != settings.database or not router.allow_migrate(alias, app_label):
            return
        to = self.number if is_forwards else self.number - 1
        if schema_editor.collect_sql:
            before = range(1, self.number if is_forwards else self.number + 1)
            scripts = statements(settings.schema, applied=before, to=to)
        else:
            scripts = self._pending(schema_editor.connection, settings.schema, to, is_forwards)
        for script in scripts:
            # Without parameters, the server takes several statements at once.
            schema_editor.execute(script, params=None)

    def _pending(self, connection: Any, schema: str, to: int, is_forwards: bool) -> list[str]:
        executor = adapt(connection, "blocking")
        numbers = {each.number for each in drive(applied_migrations(executor, schema))}
        if (self.number in numbers) == is_forwards:
            return []
        steps = drive(prepare(executor, schema, to))
        return drive(build_sql(executor, schema, steps))
