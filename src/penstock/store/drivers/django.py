"""Django's connection: `django.db.connection`, or one of `django.db.connections`."""

from __future__ import annotations

from typing import Any

from penstock.store.drivers.adapter import Adapter, Row
from penstock.store.statement import Statement


class Django(Adapter):
    manner = "blocking"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(*Statement(query, params).pyformat)
            if cursor.description is None:
                return []
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def adapt(connection: Any) -> Adapter | None:
    vendor = getattr(connection, "vendor", None)
    if vendor is None:
        return None
    if vendor != "postgresql":
        raise TypeError(f"Penstock's jobs live in Postgres, and this connection is to {vendor}.")
    return Django(connection)
