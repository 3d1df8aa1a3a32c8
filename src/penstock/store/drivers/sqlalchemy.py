"""SQLAlchemy 2: connections and sessions, async and blocking.

Asked through SQLAlchemy and not through the driver below it: only so does SQLAlchemy know that a
transaction has begun, which its commit needs.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from penstock.store.drivers.adapter import Adapter, Row
from penstock.store.statement import Statement


class AsyncAlchemy(Adapter):
    manner = "async"

    def __init__(self, given: AsyncConnection | AsyncSession | async_scoped_session[Any]) -> None:
        self._given = given

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        connection = await self._connection()
        marked = _marked(connection.dialect, query, params)
        return _rows(await connection.exec_driver_sql(*marked))

    async def is_in_transaction(self) -> bool:
        return not _commits_by_itself((await self._connection()).sync_connection)

    async def _connection(self) -> AsyncConnection:
        given = self._given
        return given if isinstance(given, AsyncConnection) else await given.connection()


class BlockingAlchemy(Adapter):
    manner = "blocking"

    def __init__(self, given: Connection | Session | scoped_session[Any]) -> None:
        self._given = given

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        connection = self._connection()
        return _rows(connection.exec_driver_sql(*_marked(connection.dialect, query, params)))

    async def is_in_transaction(self) -> bool:
        return not _commits_by_itself(self._connection())

    def _connection(self) -> Connection:
        given = self._given
        return given if isinstance(given, Connection) else given.connection()


def adapt(connection: Any) -> Adapter | None:
    if isinstance(connection, AsyncConnection | AsyncSession | async_scoped_session):
        return AsyncAlchemy(connection)
    if isinstance(connection, Connection | Session | scoped_session):
        return BlockingAlchemy(connection)
    return None


def _marked(dialect: Any, query: str, params: tuple[Any, ...]) -> tuple[str, Any]:
    """The statement the way the driver below marks its parameters."""
    if dialect.name == "postgresql" and dialect.paramstyle == "pyformat":
        return Statement(query, params).pyformat
    if dialect.name == "postgresql" and dialect.paramstyle == "numeric_dollar":
        return query, params
    raise TypeError(
        f"Jobs can be enqueued through SQLAlchemy on psycopg, psycopg2 or asyncpg, not on "
        f"{dialect.name}+{dialect.driver}. For another driver, app.statement(…) gives the SQL."
    )


def _commits_by_itself(connection: Connection | None) -> bool:
    """With the isolation level AUTOCOMMIT, SQLAlchemy's transactions are none of Postgres's."""
    driver: Any = connection and connection.connection.dbapi_connection
    return bool(driver.autocommit)


def _rows(result: CursorResult[Any]) -> list[Row]:
    return list(result.mappings().all()) if result.returns_rows else []  # type: ignore[arg-type]
