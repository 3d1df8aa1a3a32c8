"""The way to the database: opened once, on first use, and shared by all that one app does."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from penstock import migrate
from penstock.bounded_connection import CLOSE_TIMEOUT_S, close_pool
from penstock.config import DATA_DIR, DATABASE_URL, REQUIRE_URL, Database, requires_url
from penstock.connect.tracing import Tracing
from penstock.embedded import Hold, Server
from penstock.errors import DatabaseLost, EmbeddedError, NotAllowed, PenstockError, SchemaMissing
from penstock.forks import reset_in_forks
from penstock.store import Executor, Pool, Store, close_idle, open_pool, permission_error
from penstock.store import errors as store_errors
from penstock.store.connection import COMMAND_TIMEOUT, CONNECT_TIMEOUT
from penstock.store.errors import database_error, database_lost
from penstock.telemetry import Events

log = logging.getLogger("penstock")

# The folders that this process has spoken of.
_announced: set[Path] = set()


def hold_embedded(database: Database) -> Hold:
    """Keep the embedded server of a database without a URL running; see `expect_asked`."""
    expect_asked(database)
    server = Server(database.data_dir)
    if database.data_dir is None and not server.status().persistent:
        _announce(server.data_dir)
    return server.acquire()


def expect_asked(database: Database) -> None:
    """Raise if an embedded server would be used that nobody asked for, where that is forbidden."""
    if database.url is None and database.data_dir is None and requires_url():
        raise EmbeddedError(
            f"No database is named, and {REQUIRE_URL}=1 forbids an embedded Postgres in its place. "
            f"Set {DATABASE_URL} to postgresql://user:password@host/database, or name it with "
            '--database-url or Penstock("postgresql://…").'
        )


def announced_elsewhere(database: Database) -> None:
    """Another process of the same command says that the embedded server is used."""
    if database.url is None:
        _announced.add(Server(database.data_dir).data_dir)


def _announce(folder: Path) -> None:
    if folder not in _announced:
        _announced.add(folder)
        log.warning(
            "No database is named, so an embedded Postgres is used, in %s. For yours set %s to "
            "postgresql://user:password@host/database. If the embedded one is meant, name its "
            "folder with %s or data_dir, or start it with `penstock db start`.",
            folder,
            DATABASE_URL,
            DATA_DIR,
        )


# What is under way when the app is closed may take so long to finish.
CLOSE_WAIT = 10.0
TRY_AGAIN = "Try again."


class LoopOwnership:
    """The connector is one event loop's: while it is open there, and while it is being opened."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.openers = 0
        self._one_at_a_time = asyncio.Lock()
        self._opening: asyncio.Task[Pool] | None = None

    async def shared(self, open_once: Callable[[], Awaitable[Pool]]) -> Pool:
        """Wait for one opening, shared by all callers: in turn, the last would wait for each.

        If it fails, all get its error. When the last caller gives up, it is cancelled.
        """
        opening = self._opening
        if opening is None or opening.done():
            opening = asyncio.create_task(self._next(open_once), name="penstock open")
            self._opening = opening
        try:
            await asyncio.wait([opening])
            return opening.result()
        finally:
            self.openers -= 1
            if not self.openers:
                self._opening = None
                opening.cancel()
                await asyncio.gather(opening, return_exceptions=True)

    async def _next(self, open_once: Callable[[], Awaitable[Pool]]) -> Pool:
        """Open once an earlier opening has cleaned up, even if its callers gave it up."""
        async with self._one_at_a_time:
            return await open_once()


class Connector:
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
        self._close_wait = CLOSE_WAIT
        self.give_way: Callable[[], None] = _never  # asked of whoever opened it in another loop
        self.reset_after_fork()
        reset_in_forks(self)

    def reset_after_fork(self) -> None:
        """Be closed; also in a forked child, where what is open belongs to the parent."""
        self._pool: Pool | None = None
        self._hold: Hold | None = None
        self._claim: LoopOwnership | None = None
        self._claiming = threading.Lock()  # Loops run in threads, and may open it at the same time.
        self._lasting: AsyncGenerator[None, None] | None = None

    def lead_to(self, database: Database) -> None:
        """Lead somewhere else from now on; refused once the connector is open."""
        if self._pool is not None or self._hold is not None:
            raise RuntimeError("The app is open: close it before it is led to another database.")
        self.database = database
        self.store = Store(database.schema)

    @property
    def url(self) -> str:
        """The address in use; known once the connector is open."""
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
        """The event loop that the connector is open in."""
        claim = self._claim
        return claim.loop if self._pool is not None and claim is not None else None

    async def pool(self) -> Pool:
        """The pool, opened by the first who asks."""
        claim, pool = self._claim, self._pool
        if pool is not None and claim is not None and self._is_held_here(claim):
            return pool
        if self._is_elsewhere:
            await asyncio.to_thread(self.give_way)
        return await self._take().shared(self._open_once)

    async def open(self) -> Pool:
        """As `pool`, with errors in words of the domain."""
        with self.in_words(TRY_AGAIN, is_sent=False):
            return await self.pool()

    async def reconnect(self) -> None:
        """Use no connection again: after a failover they may lead to what was the primary."""
        if self._pool is not None:
            await self._pool.expire_connections()

    def close_idle(self) -> None:
        """Give back the connections that nobody uses, to a server that takes no more."""
        if self._pool is not None:
            close_idle(self._pool)

    async def open_another(self, *, size: int, name: str) -> Pool:
        """A pool of the caller's own on the same database."""
        return await open_pool(
            self.url,
            size=size,
            name=name,
            prepared=self.database.prepared_statements,
            command_timeout=max(COMMAND_TIMEOUT, self.database.call_timeout),
            connect_timeout=self._connect_timeout,
        )

    async def _last(self, pool: Pool) -> AsyncGenerator[None, None]:
        """Close with the loop, if nobody does before: a loop that ends closes its generators."""
        loop, hold = asyncio.get_running_loop(), self._hold
        try:
            yield
        finally:
            if loop is asyncio.get_running_loop():
                await close_pool(pool, self._close_wait)
            await _release(hold)
            await self._close_others()
            # Last, and only what was opened here: another loop may open it from now on.
            if self._pool is pool:
                self._pool = self._hold = None

    async def _close_others(self) -> None:
        """Close connections of other drivers, which end with the pool."""

    @staticmethod
    def _is_held_here(claim: LoopOwnership) -> bool:
        return claim.loop is asyncio.get_running_loop()

    @property
    def _is_elsewhere(self) -> bool:
        """Whether a loop that has not ended and is not the running one has it open, or opens it."""
        claim = self._claim
        if claim is None or claim.loop.is_closed():
            return False
        is_in_use = self._pool is not None or claim.openers > 0
        return is_in_use and claim.loop is not asyncio.get_running_loop()

    def _take(self) -> LoopOwnership:
        """Claim the connector for the running loop, or raise if another has it.

        Connections belong to the loop that opened them; with a loop that has ended they end.
        """
        with self._claiming:
            if self._is_elsewhere:
                raise RuntimeError(
                    "This app is open in another event loop. From a thread, use "
                    "asyncio.run_coroutine_threadsafe(app.enqueue(…), loop); or make one app per "
                    "loop. If app.sync opened the app, one of its calls is still running: wait for "
                    "that call, or call app.sync.close()."
                )
            if self._claim is None or not self._is_held_here(self._claim):
                self._claim, self._pool = LoopOwnership(asyncio.get_running_loop()), None
            self._claim.openers += 1
            return self._claim

    async def _open_once(self) -> Pool:
        if self._pool is None:
            pool = await self._open()
            self._lasting = self._last(pool)
            await anext(self._lasting)
            self._pool = pool
        return self._pool

    async def _open(self) -> Pool:
        if self.database.url is None:
            await self._start_embedded()
        try:
            pool = await self.open_another(size=self.database.pool_size, name="penstock")
        except BaseException:
            await self._let_go()
            raise
        try:
            await self._try(pool)
        except BaseException:
            await close_pool(pool, CLOSE_TIMEOUT_S)
            await self._let_go()
            raise
        return pool

    @property
    def _connect_timeout(self) -> float:
        return min(CONNECT_TIMEOUT, self.database.call_timeout)

    async def _try(self, pool: Pool) -> None:
        """Raise unless the database answers in time and has the schema that is needed."""
        seconds = self._connect_timeout
        try:
            async with asyncio.timeout(seconds), pool.acquire() as connection:
                await self._check(connection)
        except TimeoutError as error:
            raise self.late(seconds) from error

    async def _check(self, connection: Executor) -> None:
        try:
            await migrate.check(connection, self.database.schema, self.database.place)
        except Exception as error:
            if store_errors.is_refused(error):
                raise await self.permission_error(error, connection) from error
            raise

    async def _start_embedded(self) -> None:
        if self._hold is None:
            self._hold = await asyncio.to_thread(hold_embedded, self.database)
        if self._migrates:
            await self.migrate()

    async def migrate(self) -> list[str]:
        """Bring all tables up to date; the names of what was applied."""
        schema, timeout = self.database.schema, self._connect_timeout
        names = await migrate.migrate(self.url, schema=schema, timeout=timeout)
        for more in self.migrations:
            names += await more(self.opened)
        return names

    async def close(self, seconds: float = CLOSE_WAIT) -> None:
        """Close the pool in so many seconds; an embedded server stops with its last user."""
        self._close_wait = seconds
        lasting, self._lasting = self._lasting, None
        if lasting is not None:
            await lasting.aclose()

    # Errors in words

    @contextmanager
    def in_words(self, doubt: str, *, is_sent: bool) -> Iterator[None]:
        """Raise the driver's errors as ours; what is asked is asked once."""
        try:
            yield
        except Exception as error:
            is_sent = is_sent and not store_errors.never_arrived(error)
            if (told := self.explained(error, doubt, is_sent=is_sent)) is None:
                raise
            raise told from told.__cause__ or error

    def explained(self, error: Exception, doubt: str, *, is_sent: bool) -> PenstockError | None:
        """The error of ours for one of the driver's; None for what says enough itself."""
        if store_errors.is_schema_missing(error, self.store.schema):
            return SchemaMissing(self.store.schema, place=self.database.place)
        if (refused := database_error(error, self.database.place, self.store.schema)) is not None:
            return refused
        if store_errors.is_lost(error):
            return self.lost(error, doubt, is_sent=is_sent)
        return None

    async def permission_error(
        self, error: BaseException, on: Executor | None = None
    ) -> NotAllowed:
        """The error of a missing right; `on` is a connection of the same role that still works."""
        return await permission_error(error, self.store.schema, self.database.place, on)

    def lost(self, error: Exception, doubt: str, *, is_sent: bool) -> DatabaseLost:
        """A connection that broke or cannot be had; `doubt` is what follows if it was sent."""
        return database_lost(error, self.database.place, is_sent=is_sent, doubt=doubt)

    def late(self, seconds: float, *, is_sent: bool = True) -> TimeoutError:
        """Why there was no answer in time."""
        pool = self._pool
        size = 0 if is_sent or pool is None or pool.get_idle_size() else pool.get_size()
        if pool is not None and size == pool.get_max_size():
            return TimeoutError(
                f"none of the {size} connections of the pool was free within {seconds:g} s; "
                "pool_size sets how many there are"
            )
        return TimeoutError(f"no answer within {seconds:g} s")

    async def _let_go(self) -> None:
        hold, self._hold = self._hold, None
        await _release(hold)


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
