"""Running a coroutine to its end from code that blocks, whatever loop runs or does not run here."""

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
    """The coroutine's result, from a thread and a loop of its own: those here do not notice."""
    with ThreadPoolExecutor(1, thread_name_prefix="penstock aside") as thread:
        return thread.submit(asyncio.run, coroutine).result()


MEMORY = Path("/dev/shm")
ENOUGH = 2 * 1024**3
PREFIX = "penstock-pytest-"
AN_HOUR = 3600.0


def place_for(session: Path) -> Path:
    """The folder of a session's server: the same for all its processes.

    In memory, if there is enough of it: a clone takes 30 ms there, and 300 ms on a busy disk.
    """
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ENOUGH:
        return session / "penstock"
    remove_abandoned(MEMORY)
    digest = hashlib.sha256(str(session.resolve()).encode()).hexdigest()[:12]
    return MEMORY / f"{PREFIX}{digest}"


def remove_abandoned(folder: Path) -> None:
    """Give back the memory of sessions that were killed: their servers stop, their files stay."""
    for place in folder.glob(f"{PREFIX}*"):
        try:
            is_old = time.time() - place.stat().st_mtime > AN_HOUR
        except FileNotFoundError:  # Another session was faster.
            continue
        if is_old and not Server(place).status().running:
            shutil.rmtree(place, ignore_errors=True)


_grounds: set[str | Path] = set()


def for_tests(app: Penstock) -> None:
    """Say that the database of an app is there for tests, which may do anything to its jobs.

        for_tests(app)
        await drain(app)

    Databases of the pytest plugin and of `led_to` are so anyway.
    """
    _grounds.add(_place(app.database))


def add_ground(url: str) -> None:
    """Have a database that was made for tests, or named for one."""
    _grounds.add(url)


def expect_ground(app: Client, verb: str) -> None:
    """Raise unless the app is on a database for tests."""
    if not isinstance(app, Penstock):
        raise TypeError(
            f"{verb} is about the whole queue, so it takes your app itself, not {app!r}."
        )
    if _place(app.database) not in _grounds:
        raise NotForTests(
            f"{verb} does as it likes with every job in the database, and nothing says that this "
            "app's is there for tests. Ask for the fixture penstock_app, or lead the app to a "
            "test's database with penstock.testing.led_to(app, penstock_url). If this database "
            "is indeed for tests, say so with penstock.testing.for_tests(app)."
        )


@asynccontextmanager
async def left_as_it_was(app: Penstock) -> AsyncIterator[None]:
    """Close the app afterwards unless it was open before.

    Nobody else would: a database cannot be dropped while the app is connected to it.
    """
    loop = app._connector.loop
    was_open = loop is not None and not loop.is_closed()
    try:
        yield
    finally:
        if not was_open:
            await app.close()


def _place(database: Database) -> str | Path:
    return database.url or Server(database.data_dir).data_dir


CLOSE_WAIT = 20.0


@contextmanager
def led_to(app: Penstock, url: str) -> Iterator[Penstock]:
    """Lead an app to a database while a test runs; afterwards it is closed and led back.

        @pytest.fixture
        def app(penstock_url):
            with led_to(shop.app, penstock_url) as app:
                yield app

    It blocks, so that it serves tests of any kind: the app may be used with `await` in whatever
    loop the test has, and with `app.sync`.
    """
    before = app.database
    app._connector.lead_to(replace(before, url=url, data_dir=None, listen_url=None))
    add_ground(url)
    try:
        yield app
    finally:
        _close(app)
        app._connector.lead_to(before)


def _close(app: Penstock) -> None:
    """Close the app in the loop that it is open in, wherever that is."""
    app.sync.close()
    loop = app._connector.loop
    if loop is None:
        return
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(app.close(), loop).result(CLOSE_WAIT)
    elif loop.is_closed():
        run_aside(app.close())  # Its connections have ended with the loop; the app does not know.
    else:
        loop.run_until_complete(app.close())


_numbers = count(1)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server for tests: its address for the application, and for one who may create databases."""

    url: str
    admin_url: str

    def as_admin(self, url: str) -> str:
        """The same database for the server's owner, who may add extensions to it."""
        return _elsewhere(self.admin_url, _database(url))

    @contextmanager
    def template(self) -> Iterator[str]:
        """A database with Penstock's schema, to be cloned; nobody may stay connected to it."""
        with self._database("template1") as url:
            run_aside(migrate(url))
            yield url

    @contextmanager
    def clone(self, template: str) -> Iterator[str]:
        """A copy of a template; dropped afterwards, whoever is still connected."""
        with self._database(_database(template)) as url:
            yield url

    @contextmanager
    def _database(self, source: str) -> Iterator[str]:
        name = f"penstock_test_{os.getpid()}_{secrets.token_hex(2)}_{next(_numbers)}"
        owner = urlsplit(self.url).username
        create = f"CREATE DATABASE {quote(name)} TEMPLATE {quote(source)}"
        self._execute(create if owner is None else f"{create} OWNER {quote(owner)}", source)
        try:
            url = _elsewhere(self.url, name)
            add_ground(url)
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
    """An embedded server, shared by the processes of a test session and gone with the last.

    They know each other by the session's folder.
    """
    folder, lock = place_for(session), session / "penstock.lock"
    server = Server(folder)
    with LockedFile(lock, create=True):
        held = server.acquire()
    try:
        # Tests may crash Postgres, not the machine: what the kernel has taken over is safe.
        run_aside(_execute(server.admin_url(), "ALTER SYSTEM SET fsync = off"))
        run_aside(_execute(server.admin_url(), "SELECT pg_reload_conf()"))
        yield PostgresServer(server.url(), server.admin_url())
    finally:
        with LockedFile(lock):
            if len(server.status().holders) == 1:
                server.stop("immediate")  # A checkpoint for files that go away would be wasted.
            held.release()
            if not server.status().running:
                shutil.rmtree(folder)


@contextmanager
def running(url: str) -> Iterator[PostgresServer]:
    """A server that runs already, as a role that may create databases."""
    yield PostgresServer(url, url)


async def _execute(url: str, command: str) -> None:
    connection = await hosts.connect(url)
    try:
        await connection.execute(command)
    finally:
        await connection.close()


def _database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _elsewhere(url: str, database: str) -> str:
    """The same server and role, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))
