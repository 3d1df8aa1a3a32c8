"""Adapt connections of psycopg 3, async and blocking."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import dict_row

from penstock.store.drivers.adapter import Adapter, Row
from penstock.store.statement import Statement

AnyConnection: TypeAlias = psycopg.AsyncConnection[Any] | psycopg.Connection[Any]


class AsyncPsycopg(Adapter):
    manner = "async"

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        # A plain cursor, whatever `cursor_factory` the connection has.
        async with psycopg.AsyncCursor(self._connection, row_factory=dict_row) as cursor:
            await cursor.execute(*Statement(query, params).pyformat)
            if _is_pipelined(self._connection):
                async with self._connection.pipeline():
                    pass  # Leaving the block waits for results; the caller's pipeline continues.
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
            if _is_pipelined(self._connection):
                with self._connection.pipeline():
                    pass  # Leaving the block waits for results; the caller's pipeline continues.
            return list(cursor.fetchall()) if cursor.description else []

    async def is_in_transaction(self) -> bool:
        return _is_in_transaction(self._connection)


def adapt(connection: Any) -> Adapter | None:
    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncPsycopg(connection)
    if isinstance(connection, psycopg.Connection):
        return BlockingPsycopg(connection)
    return None


def _is_pipelined(connection: AnyConnection) -> bool:
    return connection.pgconn.pipeline_status != PipelineStatus.OFF


def _is_in_transaction(connection: AnyConnection) -> bool:
    begins_implicitly = not connection.autocommit
    return begins_implicitly or connection.info.transaction_status != TransactionStatus.IDLE
