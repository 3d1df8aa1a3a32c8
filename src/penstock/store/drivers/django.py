"""Adapt Django's connections: `django.db.connection` and those in `django.db.connections`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

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
            rows = cursor.fetchall()
        return [dict(zip(names, map(self._with_zone, row), strict=True)) for row in rows]

    async def is_in_transaction(self) -> bool:
        return self._connection.in_atomic_block or not self._connection.get_autocommit()

    def _with_zone(self, value: Any) -> Any:
        """Add Django's time zone to a naive datetime, which Django returns without USE_TZ."""
        if isinstance(value, datetime) and value.tzinfo is None:
            return value.replace(tzinfo=ZoneInfo(self._connection.timezone_name))
        return value


def adapt(connection: Any) -> Adapter | None:
    vendor = getattr(connection, "vendor", None)
    if vendor is None:
        return None
    if vendor != "postgresql":
        raise TypeError(f"Penstock's jobs live in Postgres, and this connection is to {vendor}.")
    return Django(connection)
