"""The server that all are measured on: fresh databases, and the processor time that it uses."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

from benchmarks.comparison.environment import FOLDER
from penstock.embedded import Server
from penstock.sql import quote
from penstock.store.connection import Connection


class Postgres:
    """Databases come and go; the settings are the server's own, the same for everybody."""

    def __init__(self, admin: Connection, admin_url: str, url: str) -> None:
        self.admin = admin
        self._admin_url = admin_url
        self._url = url
        self._run = secrets.token_hex(3)
        # Of statements of the one connection, where entrants do not take turns themselves.
        self._turn = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def connect(cls, admin_url: str, url: str) -> AsyncIterator[Postgres]:
        """One URL may create databases, the other's role will own them."""
        admin = await asyncpg.connect(admin_url)
        try:
            yield cls(admin, admin_url, url)
        finally:
            await admin.close()

    @asynccontextmanager
    async def database(self, name: str, source: Database | None = None) -> AsyncIterator[Database]:
        """An empty database, or a copy of another that nobody is connected to."""
        name = f"bench_{self._run}_{name}_{secrets.token_hex(2)}"
        owner = urlsplit(self._url).username
        await self._execute(
            f"CREATE DATABASE {quote(name)}"
            f" TEMPLATE {quote(source.name if source else 'template1')}"
            + (f" OWNER {quote(owner)}" if owner else "")
        )
        try:
            yield Database(name, _with_database(self._url, name))
        finally:
            # This waits for a checkpoint: each measurement begins with nothing left to write.
            await self._execute(f"DROP DATABASE {quote(name)} WITH (FORCE)")

    async def _execute(self, statement: str) -> None:
        async with self._turn:
            await self.admin.execute(statement)

    async def extend(self, database: Database, extension: str) -> None:
        """Install what only a superuser may."""
        admin = await asyncpg.connect(_with_database(self._admin_url, database.name))
        try:
            await admin.execute(f"CREATE EXTENSION IF NOT EXISTS {quote(extension)}")
        finally:
            await admin.close()

    async def cpu_seconds(self) -> float | None:
        """Of all its processes, ended ones included; None if the server is on another machine."""
        async with self._turn:
            backend = await self.admin.fetchval("SELECT pg_backend_pid()")
        try:
            postmaster = psutil.Process(backend).parent()
        except psutil.NoSuchProcess:
            return None
        if postmaster is None or "postgres" not in postmaster.name():
            return None
        return _spent(postmaster, *postmaster.children())

    async def spent_since(self, before: float | None) -> float | None:
        """What it has used since it was asked before."""
        now = await self.cpu_seconds()
        return None if before is None or now is None else now - before


class Database:
    """One database, and a connection to it when it is needed."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        async with AsyncExitStack() as stack:
            connection = await asyncpg.connect(self.url)
            stack.push_async_callback(connection.close)
            yield connection

    async def tidy(self) -> None:
        """Statistics and visibility as autovacuum would soon have made them."""
        async with self.connect() as connection:
            await connection.execute("VACUUM (ANALYZE)")


@asynccontextmanager
async def server(database_url: str | None) -> AsyncIterator[Postgres]:
    """The embedded Postgres, in a folder of its own, unless one is named."""
    if database_url is not None:
        async with Postgres.connect(database_url, database_url) as postgres:
            yield postgres
        return
    embedded = Server(FOLDER / "postgres")
    hold = await asyncio.to_thread(embedded.acquire)
    try:
        async with Postgres.connect(embedded.admin_url(), embedded.url()) as postgres:
            yield postgres
    finally:
        await asyncio.to_thread(hold.release)


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def _spent(postmaster: psutil.Process, *backends: psutil.Process) -> float:
    ended = postmaster.cpu_times()
    return float(ended.children_user + ended.children_system) + sum(
        map(_own, (postmaster, *backends))
    )


def _own(process: psutil.Process) -> float:
    with suppress(OSError):
        # In nanoseconds, where the others are in ticks of 10 ms; of the one thread that there is.
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # its time is the postmaster's now
    return float(times.user + times.system)
