"""psycopg 3, async and blocking."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from penstock.store.drivers.adapter import Adapter, Row
from penstock.store.statement import Statement


class AsyncPsycopg(Adapter):
    manner = "async"

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        # A plain cursor, whatever kind the connection makes by itself.
        async with psycopg.AsyncCursor(self._connection, row_factory=dict_row) as cursor:
            await cursor.execute(*Statement(query, params).pyformat)
            return list(await cursor.fetchall()) if cursor.description else []

    async def is_in_transaction(self) -> bool:
        return _is_in_transaction(self._connection)


class BlockingPsycopg(Adapter):
    manner = "blocking"

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        with psycopg.Cursor(self._connection, row_factory=dict_row) as cursor:
            cursor.execute(*Statement(query, params).pyformat)
            return list(cursor.fetchall()) if cursor.description else []

    async def is_in_transaction(self) -> bool:
        return _is_in_transaction(self._connection)


def adapt(connection: Any) -> Adapter | None:
    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncPsycopg(connection)
    if isinstance(connection, psycopg.Connection):
        return BlockingPsycopg(connection)
    return None


def _is_in_transaction(
    connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any],
) -> bool:
    begins_one = not connection.autocommit
    return begins_one or connection.info.transaction_status != TransactionStatus.IDLE
