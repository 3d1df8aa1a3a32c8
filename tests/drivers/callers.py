"""Callers with a transaction of their own, one for each way into Postgres that users have."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import django
import psycopg
import pytest
import sqlalchemy
from django.conf import settings
from django.db.utils import ConnectionHandler
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from penstock import Penstock
from tests.fixtures.django_database import database_settings

Work = Callable[[Any], Any]


class Caller(ABC):
    """Does some work with `app.inside(…)` in one transaction of its library.

    The work is written once: for an async library what it returns is awaited, for a blocking one
    it runs in a thread.
    """

    is_blocking = False

    def __init__(self, app: Penstock, url: str) -> None:
        self.app = app
        self.url = url

    @abstractmethod
    async def transact(self, work: Work, *, commit: bool = True) -> Any: ...

    @abstractmethod
    async def close(self) -> None:
        """Leave the connection that its transactions had."""

    async def enqueue(self, *args: Any, commit: bool = True, **kwargs: Any) -> Any:
        return await self.transact(lambda jobs: jobs.enqueue(*args, **kwargs), commit=commit)


class AsyncCaller(Caller):
    async def transact(self, work: Work, *, commit: bool = True) -> Any:
        return await self.begin(lambda given: work(self.app.inside(given)), commit)

    @abstractmethod
    async def begin(self, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        """Use a connection inside a transaction; give back what came of it."""


class BlockingCaller(Caller):
    is_blocking = True

    async def transact(self, work: Work, *, commit: bool = True) -> Any:
        return await asyncio.to_thread(
            self.begin, lambda given: work(self.app.sync.inside(given)), commit
        )

    @abstractmethod
    def begin(self, use: Callable[[Any], Any], commit: bool) -> Any: ...


class Asyncpg(AsyncCaller):
    _connection: Any = None

    async def begin(self, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        connection = self._connection = self._connection or await self._connect()
        transaction = connection.transaction()
        await transaction.start()
        try:
            result = await use(connection)
        except BaseException:
            await transaction.rollback()
            raise
        await (transaction.commit() if commit else transaction.rollback())
        return result

    async def _connect(self) -> Any:
        connection = await asyncpg.connect(self.url)
        # As many applications do; it must make no difference.
        await connection.set_type_codec(
            "jsonb", encoder=repr, decoder=lambda text: {"changed": text}, schema="pg_catalog"
        )
        return connection

    async def close(self) -> None:
        if self._connection:
            await self._connection.close()


class AsyncPsycopg(AsyncCaller):
    _connection: Any = None

    async def begin(self, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(self.url)
        try:
            result = await use(self._connection)
        except BaseException:
            await self._connection.rollback()
            raise
        await (self._connection.commit() if commit else self._connection.rollback())
        return result

    async def close(self) -> None:
        if self._connection:
            await self._connection.close()


class _AsyncAlchemy(AsyncCaller):
    driver: str

    def __init__(self, app: Penstock, url: str) -> None:
        super().__init__(app, url)
        self._engine = create_async_engine(alchemy_url(url, self.driver))

    async def begin(self, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        return await self.use(self._engine, use, commit)

    async def use(self, engine: Any, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        async with engine.connect() as connection:
            result = await use(connection)
            await (connection.commit() if commit else connection.rollback())
            return result

    async def close(self) -> None:
        await self._engine.dispose()


class AlchemyOnAsyncpg(_AsyncAlchemy):
    driver = "asyncpg"


class AlchemyOnAsyncPsycopg(_AsyncAlchemy):
    driver = "psycopg"


class AlchemyAsyncSession(_AsyncAlchemy):
    driver = "asyncpg"

    async def use(self, engine: Any, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        async with AsyncSession(engine) as session:
            result = await use(session)
            await (session.commit() if commit else session.rollback())
            return result


class Psycopg(BlockingCaller):
    _connection: Any = None

    def begin(self, use: Callable[[Any], Any], commit: bool) -> Any:
        if self._connection is None:
            self._connection = psycopg.connect(self.url, cursor_factory=psycopg.ClientCursor)
        try:
            result = use(self._connection)
        except BaseException:
            self._connection.rollback()
            raise
        _ = self._connection.commit() if commit else self._connection.rollback()
        return result

    async def close(self) -> None:
        if self._connection:
            self._connection.close()


class _Alchemy(BlockingCaller):
    driver = "psycopg"

    def __init__(self, app: Penstock, url: str) -> None:
        super().__init__(app, url)
        self._engine = sqlalchemy.create_engine(alchemy_url(url, self.driver))

    def begin(self, use: Callable[[Any], Any], commit: bool) -> Any:
        return self.use(self._engine, use, commit)

    def use(self, engine: Any, use: Callable[[Any], Any], commit: bool) -> Any:
        with engine.connect() as connection:
            result = use(connection)
            _ = connection.commit() if commit else connection.rollback()
            return result

    async def close(self) -> None:
        self._engine.dispose()


class AlchemyOnPsycopg(_Alchemy):
    pass


class AlchemyOnPsycopg2(_Alchemy):
    driver = "psycopg2"


class AlchemySession(_Alchemy):
    def use(self, engine: Any, use: Callable[[Any], Any], commit: bool) -> Any:
        with Session(engine) as session:
            result = use(session)
            _ = session.commit() if commit else session.rollback()
            return result


class Django(BlockingCaller):
    def begin(self, use: Callable[[Any], Any], commit: bool) -> Any:
        with django_connection(self.url) as connection:
            connection.set_autocommit(False)
            result = use(connection)
            _ = connection.commit() if commit else connection.rollback()
            return result

    async def close(self) -> None: ...


ASYNC = (
    Asyncpg,
    AsyncPsycopg,
    AlchemyOnAsyncpg,
    AlchemyOnAsyncPsycopg,
    AlchemyAsyncSession,
)
BLOCKING = (Psycopg, AlchemyOnPsycopg, AlchemyOnPsycopg2, AlchemySession, Django)
# Where what a library is used through makes no difference: one of each library and kind. The long
# form has all of them.
FEW = (Asyncpg, AsyncPsycopg, AlchemyAsyncSession, Psycopg, AlchemyOnPsycopg2, Django)
few = pytest.mark.parametrize(
    "caller",
    [*ASYNC, *BLOCKING] if "PENSTOCK_LONG" in os.environ else FEW,
    indirect=True,
    ids=lambda kind: kind.__name__,
)


@contextmanager
def django_connection(url: str) -> Iterator[Any]:
    """A connection as Django makes it: every statement is committed by itself."""
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    connection = ConnectionHandler({"default": database_settings(url)})["default"]
    try:
        yield connection
    finally:
        connection.close()


def alchemy_url(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)
