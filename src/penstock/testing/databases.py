"""Databases for tests: one server, a template that is migrated once, a clone for each test.

    with embedded(session_folder) as server, server.template() as template:
        with server.clone(template) as url:
            ...

All of it blocks, so that it serves any test: with pytest-asyncio, with anyio, without a loop.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from penstock import hosts
from penstock.embedded import Server
from penstock.embedded.folder import LockedFile
from penstock.migrate import migrate
from penstock.sql import quote
from penstock.testing.aside import run_aside
from penstock.testing.errors import NoTestDatabase
from penstock.testing.ground import add_ground
from penstock.testing.place import place_for

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
