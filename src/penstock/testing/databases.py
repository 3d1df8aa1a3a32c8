"""Databases for tests: a server for the session, a clone for each test, and an app that uses it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from penstock import hosts
from penstock.app.app import Penstock
from penstock.app.client import Client
from penstock.config import Database
from penstock.embedded import Server
from penstock.embedded.folder import LockedFile
from penstock.migrate import migrate
from penstock.sql import quote
from penstock.testing.errors import NoTestDatabase, NotForTests

T = TypeVar("T")


def run_aside(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new thread with its own event loop, and return the coroutine's result.

    Blocking code can call this even if an event loop is running in its own thread.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="penstock aside") as thread:
        return thread.submit(asyncio.run, coroutine).result()


MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 2 * 1024**3
PREFIX = "penstock-pytest-"
MAX_AGE_S = 3600.0


def folder_for(session: Path) -> Path:
    """Return the folder of a session's server, the same for all processes of the session.

    The folder is in memory if enough is free, because cloning a database takes 30 ms in memory, and
    300 ms on a busy disk.
    """
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MIN_FREE_BYTES:
        return session / "penstock"
    remove_abandoned(MEMORY)
    digest = hashlib.sha256(str(session.resolve()).encode()).hexdigest()[:12]
    return MEMORY / f"{PREFIX}{digest}"


def remove_abandoned(folder: Path) -> None:
    """Delete server files that were left behind by test sessions that were killed."""
    for server_folder in folder.glob(f"{PREFIX}*"):
        try:
            is_old = time.time() - server_folder.stat().st_mtime > MAX_AGE_S
        except FileNotFoundError:  # Another session was faster.
            continue
        if is_old and not Server(server_folder).status().running:
            shutil.rmtree(server_folder, ignore_errors=True)


_test_databases: set[str | Path] = set()


def for_tests(app: Penstock) -> None:
    """Declare that the database of an app is for tests, so that test tools may change all its jobs.

        for_tests(app)
        await drain(app)

    You need not call this for databases of the pytest plugin and of `led_to`.
    """
    _test_databases.add(_address(app.database))


def add_test_database(url: str) -> None:
    """Remember that a database is for tests."""
    _test_databases.add(url)


def check_test_database(app: Client, verb: str) -> None:
    """Raise NotForTests unless the app's database is known to be for tests."""
    if not isinstance(app, Penstock):
        raise TypeError(f"{verb} works on the whole queue, so pass your app itself, not {app!r}.")
    if _address(app.database) not in _test_databases:
        raise NotForTests(
            f"{verb} may change every job in the database, and Penstock does not know that this "
            "app's database is for tests. Use the fixture penstock_app, or let the app use a "
            "test's database with penstock.testing.led_to(app, penstock_url). If this database is "
            "for tests, say so with penstock.testing.for_tests(app)."
        )


@asynccontextmanager
async def closed_again(app: Penstock) -> AsyncIterator[None]:
    """Close the app after the block, unless it was open before.

    Nothing else would close the app, and a database with open connections cannot be dropped.
    """
    loop = app._connector.loop
    was_open = loop is not None and not loop.is_closed()
    try:
        yield
    finally:
        if not was_open:
            await app.close()


def _address(database: Database) -> str | Path:
    return database.url or Server(database.data_dir).data_dir


CLOSE_TIMEOUT_S = 20.0


@contextmanager
def led_to(app: Penstock, url: str) -> Iterator[Penstock]:
    """Let an app use another database while a test runs.

    After the block, the app is closed and uses its own database again.

        @pytest.fixture
        def app(penstock_url):
            with led_to(shop.app, penstock_url) as app:
                yield app

    This works for tests of any kind. A test can await calls of the app in any event loop, and can
    use `app.sync`.
    """
    before = app.database
    app._connector.set_database(replace(before, url=url, data_dir=None, listen_url=None))
    add_test_database(url)
    try:
        yield app
    finally:
        _close(app)
        app._connector.set_database(before)


def _close(app: Penstock) -> None:
    """Close the app in the loop in which it is open."""
    app.sync.close()
    loop = app._connector.loop
    if loop is None:
        return
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(app.close(), loop).result(CLOSE_TIMEOUT_S)
    elif loop.is_closed():
        run_aside(app.close())  # Its connections ended with the loop, which the app does not know.
    else:
        loop.run_until_complete(app.close())


_numbers = count(1)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server for tests. Apps use `url`. The role of `admin_url` may create databases."""

    url: str
    admin_url: str

    def as_admin(self, url: str) -> str:
        """Return the URL of the same database for the server's owner, who may add extensions."""
        return _with_database(self.admin_url, _database(url))

    @contextmanager
    def template(self) -> Iterator[str]:
        """Make a database with Penstock's schema, and drop it afterwards.

        The database can be cloned only while it has no connections.
        """
        with self._database("template1") as url:
            run_aside(migrate(url))
            yield url

    @contextmanager
    def clone(self, template: str) -> Iterator[str]:
        """Make a copy of a template, and drop the copy afterwards, even if it has connections."""
        with self._database(_database(template)) as url:
            yield url

    @contextmanager
    def _database(self, source: str) -> Iterator[str]:
        name = f"penstock_test_{os.getpid()}_{secrets.token_hex(2)}_{next(_numbers)}"
        owner = urlsplit(self.url).username
        create = f"CREATE DATABASE {quote(name)} TEMPLATE {quote(source)}"
        self._execute(create if owner is None else f"{create} OWNER {quote(owner)}", source)
        try:
            url = _with_database(self.url, name)
            add_test_database(url)
            yield url
        finally:
            self._execute(f"DROP DATABASE {quote(name)} WITH (FORCE)", name)

    def _execute(self, command: str, name: str) -> None:
        try:
            run_aside(_execute(self.admin_url, command))
        except asyncpg.InsufficientPrivilegeError as error:
            raise NoTestDatabase(
                f"The role of the test server may not create databases ({error}). "
                "Give it the right with ALTER ROLE … CREATEDB, or name another role."
            ) from error
        except asyncpg.ObjectInUseError as error:
            raise NoTestDatabase(
                f"Somebody is still connected to the template {name}, so it cannot be cloned. "
                "Close every connection and pool that the penstock_template fixture opens."
            ) from error


@contextmanager
def embedded(session: Path) -> Iterator[PostgresServer]:
    """Start an embedded server, which all processes of a test session share.

    The processes find the server by the session's folder. The last process stops the server and
    deletes its files.
    """
    folder, lock = folder_for(session), session / "penstock.lock"
    server = Server(folder)
    with LockedFile(lock, create=True):
        held = server.acquire()
    try:
        # Tests may crash Postgres, but not the machine: data that the kernel has is safe.
        run_aside(_execute(server.admin_url(), "ALTER SYSTEM SET fsync = off"))
        run_aside(_execute(server.admin_url(), "SELECT pg_reload_conf()"))
        yield PostgresServer(server.url(), server.admin_url())
    finally:
        with LockedFile(lock):
            if len(server.status().holders) == 1:
                server.stop("immediate")  # A checkpoint would be wasted: the files are deleted.
            held.release()
            if not server.status().running:
                shutil.rmtree(folder)


@contextmanager
def running(url: str) -> Iterator[PostgresServer]:
    """Use a server that runs already. The URL's role must be allowed to create databases."""
    yield PostgresServer(url, url)


async def _execute(url: str, command: str) -> None:
    connection = await hosts.connect(url)
    try:
        await connection.execute(command)
    finally:
        await connection.close()


def _database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _with_database(url: str, database: str) -> str:
    """Return the URL of another database, for the same server and role."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))
