"""The way to the database: opened once, on first use, and shared by all that one app does."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace

from penstock import migrate
from penstock.client.tracing import Tracing
from penstock.config import Database
from penstock.embedded import Hold, Server
from penstock.events import Events
from penstock.store import Executor, Pool, Store, failures, open_pool, refusal

logger = logging.getLogger("penstock")


class Link:
    """A pool on the configured Postgres, or on an embedded one that it starts and holds.

    Nobody else looks after an embedded server, so an app brings its own schema there up to date.
    Who only looks does not (`migrates=False`): a schema name with a slip in it would be made.
    """

    def __init__(self, database: Database, *, migrates: bool = True) -> None:
        self.database = database
        self._migrates = migrates
        # What else is brought up to date with the schema: the tables of applications.
        self.migrations: list[Callable[[Database], Awaitable[list[str]]]] = []
        self.store = Store(database.schema)
        self.events = Events()
        self.tracing: Tracing | None = None
        self._pool: Pool | None = None
        self._hold: Hold | None = None
        self._opening = asyncio.Lock()
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lasting: AsyncGenerator[None, None] | None = None
        self.give_way: Callable[[], None] = _never  # asked of whoever opened it in another loop

    def lead_to(self, database: Database) -> None:
        """Lead somewhere else from now on; refused once the link is open."""
        if self._pool is not None or self._hold is not None:
            raise RuntimeError("The app is open: close it before it is led to another database.")
        self.database = database
        self.store = Store(database.schema)

    @property
    def url(self) -> str:
        """The address in use; known once the link is open."""
        url = self.database.url or (self._hold.url if self._hold else None)
        if url is None:
            raise RuntimeError(
                "The app is not open yet, and its embedded Postgres has an address only then: "
                "await app.open(), or app.sync.open() where nothing can be awaited."
            )
        return url

    @property
    def opened(self) -> Database:
        """The database with the address in use."""
        return replace(self.database, url=self.url)

    @property
    def listen_url(self) -> str:
        """The address to listen at for notifications."""
        return self.database.listen_url or self.url

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the link is open in."""
        return self._loop if self._pool is not None and self._process == os.getpid() else None

    async def pool(self) -> Pool:
        """The pool, opened by the first who asks."""
        if self._is_elsewhere:
            await asyncio.to_thread(self.give_way)
        self._check_loop()
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    pool = await self._open()
                    self._lasting = self._last(pool)
                    await anext(self._lasting)
                    self._pool = pool
        return self._pool

    async def open_another(self, *, size: int, name: str) -> Pool:
        """A pool of the caller's own on the same database."""
        prepared = self.database.prepared_statements
        return await open_pool(self.url, size=size, name=name, prepared=prepared)

    async def _last(self, pool: Pool) -> AsyncGenerator[None, None]:
        """Close with the loop, if nobody does before: a loop that ends closes its generators."""
        loop, hold = asyncio.get_running_loop(), self._hold
        try:
            yield
        finally:
            if loop is asyncio.get_running_loop():
                await _close(pool)
            await _release(hold)
            # Last, and only what was opened here: another loop may open it from now on.
            if self._pool is pool:
                self._pool = self._hold = None

    @property
    def _is_elsewhere(self) -> bool:
        """Whether it is open in a loop that has not ended and is not the running one."""
        loop = self.loop
        return not (loop is None or loop.is_closed() or loop is asyncio.get_running_loop())

    def _check_loop(self) -> None:
        """Connections belong to the loop that opened them; with a loop that has ended they end."""
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():
            # After a fork: what is open belongs to the parent, here nothing is.
            self._process = os.getpid()
            self._loop = self._pool = self._hold = None
        if self._loop is loop:
            return
        if self._is_elsewhere:
            raise RuntimeError(
                "This app is open in another event loop. From a thread, use "
                "asyncio.run_coroutine_threadsafe(app.enqueue(…), loop); or make one app per loop. "
                "If it is open for app.sync, a call is under way there: let it end, or call "
                "app.sync.close()."
            )
        self._loop, self._pool, self._opening = loop, None, asyncio.Lock()

    async def _open(self) -> Pool:
        if self.database.url is None:
            await self._start_embedded()
        try:
            pool = await self.open_another(size=self.database.pool_size, name="penstock")
        except BaseException:
            await self._let_go()
            raise
        try:
            async with pool.acquire() as connection:
                await self._check(connection)
        except BaseException:
            await pool.close()
            await self._let_go()
            raise
        return pool

    async def _check(self, connection: Executor) -> None:
        try:
            await migrate.check(connection, self.database.schema)
        except Exception as error:
            if failures.is_refused(error):
                raise await refusal(error, self.database.schema, connection) from error
            raise

    async def _start_embedded(self) -> None:
        if self._hold is None:
            self._hold = await asyncio.to_thread(Server(self.database.data_dir).acquire)
        if self._migrates:
            await self.migrate()

    async def migrate(self) -> list[str]:
        """Bring all tables up to date; the names of what was applied."""
        names = await migrate.migrate(self.url, schema=self.database.schema)
        for more in self.migrations:
            names += await more(self.opened)
        return names

    async def close(self) -> None:
        """Close the pool; an embedded server stops when its last user has gone."""
        lasting, self._lasting = self._lasting, None
        if lasting is not None:
            await lasting.aclose()

    async def _let_go(self) -> None:
        hold, self._hold = self._hold, None
        await _release(hold)


async def _close(pool: Pool) -> None:
    try:
        await asyncio.wait_for(pool.close(), timeout=10)
    except TimeoutError:
        logger.warning("Connections were still in use after 10 s and have been cut off.")
        pool.terminate()


async def _release(hold: Hold | None) -> None:
    if hold is None:
        return
    try:
        await asyncio.to_thread(hold.release)
    except RuntimeError:
        # Python is ending and starts no more threads; nobody minds the wait any more.
        hold.release()


def _never() -> None:
    """Who opened the app in a loop of their own keeps it there."""
