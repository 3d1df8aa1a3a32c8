"""Open the database once, on first use, and share the pool between all calls of an app."""

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

# Folders of embedded servers that this process has logged already.
_announced: set[Path] = set()


def hold_embedded(database: Database) -> Hold:
    """Start the embedded server for a database without a URL, and keep it running.

    The server may stop once the returned hold is released. Raises EmbeddedError if settings forbid
    an embedded server.
    """
    require_named_database(database)
    server = Server(database.data_dir)
    if database.data_dir is None and not server.status().persistent:
        _announce(server.data_dir)
    return server.acquire()


def require_named_database(database: Database) -> None:
    """Raise EmbeddedError if no database is named and settings forbid an embedded one."""
    if database.url is None and database.data_dir is None and requires_url():
        raise EmbeddedError(
            f"No database is named, and {REQUIRE_URL}=1 forbids an embedded Postgres in its place. "
            f"Set {DATABASE_URL} to postgresql://user:password@host/database, or name it with "
            '--database-url or Penstock("postgresql://…").'
        )


def skip_announcement(database: Database) -> None:
    """Do not log the use of an embedded server, since another process of the command logs it."""
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


# How long calls under way may take to finish when the app is closed.
CALLS_TIMEOUT_S = 10.0
TRY_AGAIN = "Try again."


class LoopOwnership:
    """The event loop in which a connector is open, or is being opened."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.openers = 0
        self._one_at_a_time = asyncio.Lock()
        self._opening: asyncio.Task[Pool] | None = None

    async def open_shared(self, open_once: Callable[[], Awaitable[Pool]]) -> Pool:
        """Open the pool once for all callers that wait for it.

        If that fails, all callers get the error. If each tried in turn, the last caller would wait
        for all failures. When no caller waits any more, the opening is cancelled.
        """
        opening = self._opening
        if opening is None or opening.done():
            opening = asyncio.create_task(self._open_after_cleanup(open_once), name="penstock open")
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

    async def _open_after_cleanup(self, open_once: Callable[[], Awaitable[Pool]]) -> Pool:
        """Open the pool as soon as an earlier, cancelled opening has cleaned up."""
        async with self._one_at_a_time:
            return await open_once()


class Connector:
    """A pool on the configured Postgres, or on an embedded server that the connector starts.

    On an embedded server, an app runs pending migrations when it opens. Read-only commands pass
    `migrates=False`, because otherwise a mistyped schema name would create a new schema.
    """

    def __init__(self, database: Database, *, migrates: bool = True) -> None:
        self.database = database
        self._migrates = migrates
        # Migrations that run after those of the schema: of the tables of applications.
        self.migrations: list[Callable[[Database], Awaitable[list[str]]]] = []
        self.store = Store(database.schema)
        self.events = Events()
        self.tracing: Tracing | None = None
        self._close_wait = CALLS_TIMEOUT_S
        self.close_if_idle: Callable[[], None] = _stay_open  # Called if another loop has it open.
        self.reset_after_fork()
        reset_in_forks(self)

    def reset_after_fork(self) -> None:
        """Reset the connector to closed.

        A forked child does this too, because open connections belong to the parent.
        """
        self._pool: Pool | None = None
        self._hold: Hold | None = None
        self._claim: LoopOwnership | None = None
        self._claim_lock = threading.Lock()  # Loops in two threads may open it at the same time.
        self._closer: AsyncGenerator[None, None] | None = None

    def set_database(self, database: Database) -> None:
        """Use another database from now on. Raises RuntimeError if the connector is open."""
        if self._pool is not None or self._hold is not None:
            raise RuntimeError("The app is open. Close it before you change its database.")
        self.database = database
        self.store = Store(database.schema)

    @property
    def url(self) -> str:
        """The URL in use. Raises RuntimeError if it is not known yet."""
        url = self.database.url or (self._hold.url if self._hold else None)
        if url is None:
            raise RuntimeError(
                "The embedded Postgres has no address until the app is open. Call await "
                "app.open(), or app.sync.open() in code that does not await."
            )
        return url

    @property
    def opened(self) -> Database:
        """The database settings with the URL in use."""
        return replace(self.database, url=self.url)

    @property
    def listen_url(self) -> str:
        """The URL to listen on for notifications."""
        return self.database.listen_url or self.url

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which the connector is open, or None if it is closed."""
        claim = self._claim
        return claim.loop if self._pool is not None and claim is not None else None

    async def pool(self) -> Pool:
        """Return the pool. The first caller opens it."""
        claim, pool = self._claim, self._pool
        if pool is not None and claim is not None and self._is_held_here(claim):
            return pool
        if self._is_elsewhere:
            await asyncio.to_thread(self.close_if_idle)
        return await self._claim_loop().open_shared(self._open_once)

    async def open(self) -> Pool:
        """Return the pool as `pool` does, and translate errors of the driver."""
        with self.translate_errors(TRY_AGAIN, is_sent=False):
            return await self.pool()

    async def reconnect(self) -> None:
        """Replace all connections. After a failover they may still lead to the former primary."""
        if self._pool is not None:
            await self._pool.expire_connections()

    def close_idle(self) -> None:
        """Close idle connections. This helps if the server accepts no more connections."""
        if self._pool is not None:
            close_idle(self._pool)

    async def open_another(self, *, size: int, name: str) -> Pool:
        """Open another pool on the same database. The caller has to close it."""
        return await open_pool(
            self.url,
            size=size,
            name=name,
            prepared=self.database.prepared_statements,
            command_timeout=max(COMMAND_TIMEOUT, self.database.call_timeout),
            connect_timeout=self._connect_timeout,
        )

    async def _close_with_loop(self, pool: Pool) -> AsyncGenerator[None, None]:
        """Close the pool when the loop ends, unless `close` was called before.

        A loop that shuts down closes its async generators, including this one.
        """
        loop, hold = asyncio.get_running_loop(), self._hold
        try:
            yield
        finally:
            if loop is asyncio.get_running_loop():
                await close_pool(pool, self._close_wait)
            await _release(hold)
            await self._close_others()
            # This comes last, and concerns only our pool: another loop may open one from here on.
            if self._pool is pool:
                self._pool = self._hold = None

    async def _close_others(self) -> None:
        """Close connections of other drivers, which subclasses open along with the pool."""

    @staticmethod
    def _is_held_here(claim: LoopOwnership) -> bool:
        return claim.loop is asyncio.get_running_loop()

    @property
    def _is_elsewhere(self) -> bool:
        """Whether the connector is open, or being opened, in another loop that is not closed."""
        claim = self._claim
        if claim is None or claim.loop.is_closed():
            return False
        is_in_use = self._pool is not None or claim.openers > 0
        return is_in_use and claim.loop is not asyncio.get_running_loop()

    def _claim_loop(self) -> LoopOwnership:
        """Claim the connector for the running loop. Raises RuntimeError if another loop has it.

        Connections belong to the loop that opened them. When that loop is closed, they are lost.
        """
        with self._claim_lock:
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
            self._closer = self._close_with_loop(pool)
            await anext(self._closer)
            self._pool = pool
        return self._pool

    async def _open(self) -> Pool:
        if self.database.url is None:
            await self._start_embedded()
        try:
            pool = await self.open_another(size=self.database.pool_size, name="penstock")
        except BaseException:
            await self._release_hold()
            raise
        try:
            await self._probe(pool)
        except BaseException:
            await close_pool(pool, CLOSE_TIMEOUT_S)
            await self._release_hold()
            raise
        return pool

    @property
    def _connect_timeout(self) -> float:
        return min(CONNECT_TIMEOUT, self.database.call_timeout)

    async def _probe(self, pool: Pool) -> None:
        """Raise an error unless the database answers in time and its schema is up to date."""
        seconds = self._connect_timeout
        try:
            async with asyncio.timeout(seconds), pool.acquire() as connection:
                await self._check(connection)
        except TimeoutError as error:
            raise self.timeout_error(seconds) from error

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
        """Run all pending migrations, and return their names."""
        schema, timeout = self.database.schema, self._connect_timeout
        names = await migrate.migrate(self.url, schema=schema, timeout=timeout)
        for migrate_application in self.migrations:
            names += await migrate_application(self.opened)
        return names

    async def close(self, seconds: float = CALLS_TIMEOUT_S) -> None:
        """Close the pool. Calls that are running have up to `seconds` to end.

        An embedded server stops when nothing else uses it.
        """
        self._close_wait = seconds
        closer, self._closer = self._closer, None
        if closer is not None:
            await closer.aclose()

    # Errors

    @contextmanager
    def translate_errors(self, doubt: str, *, is_sent: bool) -> Iterator[None]:
        """Raise the driver's errors in a block as Penstock's exceptions, without retries."""
        try:
            yield
        except Exception as error:
            is_sent = is_sent and not store_errors.never_arrived(error)
            if (translated := self.translate_error(error, doubt, is_sent=is_sent)) is None:
                raise
            raise translated from translated.__cause__ or error

    def translate_error(
        self, error: Exception, doubt: str, *, is_sent: bool
    ) -> PenstockError | None:
        """Return Penstock's exception for an error of the driver.

        Return None if the error should be raised unchanged.
        """
        if store_errors.is_schema_missing(error, self.store.schema):
            return SchemaMissing(self.store.schema, place=self.database.place)
        if (known := database_error(error, self.database.place, self.store.schema)) is not None:
            return known
        if store_errors.is_lost(error):
            return self.lost_error(error, doubt, is_sent=is_sent)
        return None

    async def permission_error(
        self, error: BaseException, on: Executor | None = None
    ) -> NotAllowed:
        """Return the error for a missing right; `on` is a working connection of the same role."""
        return await permission_error(error, self.store.schema, self.database.place, on)

    def lost_error(self, error: Exception, doubt: str, *, is_sent: bool) -> DatabaseLost:
        """Return the error for a lost connection.

        If a statement was sent, the message gives the advice in `doubt`.
        """
        return database_lost(error, self.database.place, is_sent=is_sent, doubt=doubt)

    def timeout_error(self, seconds: float, *, is_sent: bool = True) -> TimeoutError:
        """Return the error for a missing answer.

        Its message says if no connection of the pool was free.
        """
        pool = self._pool
        size = 0 if is_sent or pool is None or pool.get_idle_size() else pool.get_size()
        if pool is not None and size == pool.get_max_size():
            return TimeoutError(
                f"none of the {size} connections of the pool was free within {seconds:g} s; "
                "pool_size sets how many there are"
            )
        return TimeoutError(f"no answer within {seconds:g} s")

    async def _release_hold(self) -> None:
        hold, self._hold = self._hold, None
        await _release(hold)


async def _release(hold: Hold | None) -> None:
    if hold is None:
        return
    try:
        await asyncio.to_thread(hold.release)
    except RuntimeError:
        # Python is shutting down and starts no threads. Blocking does no harm any more.
        hold.release()


def _stay_open() -> None:
    """Keep the app open: it was opened in an event loop of the caller."""
