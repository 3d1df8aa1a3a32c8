"""Adapt connections and sessions of SQLAlchemy 2, async and blocking.

Statements go through SQLAlchemy, not to the driver below it. Otherwise SQLAlchemy would not know
that a transaction has begun, and its commit would do nothing.
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

    def __init__(self, bind: AsyncConnection | AsyncSession | async_scoped_session[Any]) -> None:
        self._bind = bind

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        connection = await self._connection()
        statement = _for_dialect(connection.dialect, query, params)
        return _rows(await connection.exec_driver_sql(*statement))

    async def is_in_transaction(self) -> bool:
        return not _is_autocommit((await self._connection()).sync_connection)

    async def _connection(self) -> AsyncConnection:
        bind = self._bind
        return bind if isinstance(bind, AsyncConnection) else await bind.connection()


class BlockingAlchemy(Adapter):
    manner = "blocking"

    def __init__(self, bind: Connection | Session | scoped_session[Any]) -> None:
        self._bind = bind

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        connection = self._connection()
        statement = _for_dialect(connection.dialect, query, params)
        return _rows(connection.exec_driver_sql(*statement))

    async def is_in_transaction(self) -> bool:
        return not _is_autocommit(self._connection())

    def _connection(self) -> Connection:
        bind = self._bind
        return bind if isinstance(bind, Connection) else bind.connection()


def adapt(connection: Any) -> Adapter | None:
    if isinstance(connection, AsyncConnection | AsyncSession | async_scoped_session):
        return AsyncAlchemy(connection)
    if isinstance(connection, Connection | Session | scoped_session):
        return BlockingAlchemy(connection)
    return None


def _for_dialect(dialect: Any, query: str, params: tuple[Any, ...]) -> tuple[str, Any]:
    """Return the statement with the parameter style of the driver below SQLAlchemy."""
    if dialect.name == "postgresql" and dialect.paramstyle == "pyformat":
        return Statement(query, params).pyformat
    if dialect.name == "postgresql" and dialect.paramstyle == "numeric_dollar":
        return query, params
    raise TypeError(
        f"Jobs can be enqueued through SQLAlchemy on psycopg, psycopg2 or asyncpg, not on "
        f"{dialect.name}+{dialect.driver}. For another driver, app.statement(…) gives the SQL."
    )


def _is_autocommit(connection: Connection | None) -> bool:
    """Return whether the isolation level is AUTOCOMMIT, so that each statement commits at once.

    A transaction of SQLAlchemy is then not a transaction in Postgres.
    """
    driver: Any = connection and connection.connection.dbapi_connection
    return bool(driver.autocommit)


def _rows(result: CursorResult[Any]) -> list[Row]:
    return list(result.mappings().all()) if result.returns_rows else []  # type: ignore[arg-type]
