"""Callers with a transaction of their own, one for each way into Postgres that users have."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import django
import psycopg
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
    async def begin(self, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        connection = await asyncpg.connect(self.url)
        # As many applications do; it must make no difference.
        await connection.set_type_codec(
            "jsonb", encoder=repr, decoder=lambda text: {"changed": text}, schema="pg_catalog"
        )
        transaction = connection.transaction()
        await transaction.start()
        try:
            result = await use(connection)
            await (transaction.commit() if commit else transaction.rollback())
            return result
        finally:
            await connection.close()


class AsyncPsycopg(AsyncCaller):
    async def begin(self, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            result = await use(connection)
            await (connection.commit() if commit else connection.rollback())
            return result


class _AsyncAlchemy(AsyncCaller):
    driver: str

    async def begin(self, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        engine = create_async_engine(alchemy_url(self.url, self.driver))
        try:
            return await self.use(engine, use, commit)
        finally:
            await engine.dispose()

    async def use(self, engine: Any, use: Callable[[Any], Awaitable[Any]], commit: bool) -> Any:
        async with engine.connect() as connection:
            result = await use(connection)
            await (connection.commit() if commit else connection.rollback())
            return result


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
    def begin(self, use: Callable[[Any], Any], commit: bool) -> Any:
        with psycopg.connect(self.url, cursor_factory=psycopg.ClientCursor) as connection:
            result = use(connection)
            _ = connection.commit() if commit else connection.rollback()
            return result


class _Alchemy(BlockingCaller):
    driver = "psycopg"

    def begin(self, use: Callable[[Any], Any], commit: bool) -> Any:
        engine = sqlalchemy.create_engine(alchemy_url(self.url, self.driver))
        try:
            return self.use(engine, use, commit)
        finally:
            engine.dispose()

    def use(self, engine: Any, use: Callable[[Any], Any], commit: bool) -> Any:
        with engine.connect() as connection:
            result = use(connection)
            _ = connection.commit() if commit else connection.rollback()
            return result


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


ASYNC = (
    Asyncpg,
    AsyncPsycopg,
    AlchemyOnAsyncpg,
    AlchemyOnAsyncPsycopg,
    AlchemyAsyncSession,
)
BLOCKING = (Psycopg, AlchemyOnPsycopg, AlchemyOnPsycopg2, AlchemySession, Django)


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
