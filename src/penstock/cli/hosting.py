"""What `penstock serve` and `penstock up` do once they know what is wanted."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version

from penstock.app.app import Penstock
from penstock.cli import process
from penstock.cli.database import opened, plain_errors
from penstock.cli.listening import Listening
from penstock.cli.process import Stop
from penstock.errors import PenstockError
from penstock.hosts import place
from penstock.service import Service
from penstock.service.app import PREFIX
from penstock.service.server import Server
from penstock.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """The addresses, for people and as a document; the first key is told here and nowhere else."""

    app: Penstock
    name: str | None
    address: str
    key: str | None = None
    worker: str | None = None
    queues: tuple[str, ...] = ()

    def as_document(self) -> dict[str, object]:
        return {
            "address": self.address,
            "api": self.address + PREFIX,
            "openapi": f"{self.address}{PREFIX}/openapi.json",
            "app": self.name,
            "database": _database(self.app),
            "schema": self.app.database.schema,
            "worker": self.worker,
            "queues": list(self.queues),
            "key": self.key,
        }

    def __str__(self) -> str:
        return "\n".join([f"Penstock {version('penstock')}", *map(_line, self._lines()), ""])

    def _lines(self) -> list[tuple[str, str]]:
        api = self.address + PREFIX
        lines = [
            ("API", api),
            ("described at", f"{api}/openapi.json"),
            ("probes", f"{self.address}/livez, /readyz, /metrics"),
            ("tasks of", self.name or "no app: jobs can be looked at and changed, none enqueued"),
            ("database", f"{_database(self.app)}, schema {self.app.database.schema}"),
        ]
        if self.worker is not None:
            lines.append(("worker", f"{self.worker} for {', '.join(self.queues)}"))
        if self.key is not None:
            lines.append(("first key", f"{self.key}  (shown this once; keep it)"))
        return lines


def _line(line: tuple[str, str]) -> str:
    return f"  {line[0]:<14}{line[1]}"


def _database(app: Penstock) -> str:
    """Without what may be a password."""
    if app.database.url is None:
        return f"embedded Postgres in {app.database.data_dir or '.penstock'}"
    return place(app.database.url)


logger = logging.getLogger("penstock.service")

Announce = Callable[[Banner], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """An app to be served, and where."""

    app: Penstock
    name: str | None
    listening: Listening
    # Nobody named it: what the database cannot have is left out.
    is_ours: bool = False


async def serve(hosted: Hosted, announce: Announce) -> None:
    """The API alone."""
    stop = Stop("the service stops", hosted.app.database)
    with hosted.listening.bound() as bound, stop.breaks_off_start() as started:
        async with opened(hosted.app), _served(hosted, bound, stop) as (server, key):
            started()
            await _run(server, lambda: announce(_banner(hosted, bound, key)))


async def up(hosted: Hosted, make_worker: Callable[[], Worker] | None, announce: Announce) -> None:
    """Migrations, API and worker in one: what a developer's machine needs."""
    stop = Stop("everything stops", hosted.app.database)
    with hosted.listening.bound() as bound, stop.breaks_off_start() as started:
        await _migrate(hosted)
        async with (
            opened(hosted.app),
            _served(hosted, bound, stop, makes_key=True) as (server, key),
        ):
            if make_worker is None or (hosted.is_ours and not hosted.app.applications):
                started()
                await _run(server, lambda: announce(_banner(hosted, bound, key)))
                return
            worker = make_worker()
            stop.tell(worker)
            worker.on_stop = stop.takes
            # Whoever is connected is let go first; the worker, which takes nothing new any more,
            # comes after.
            async with worker:
                started()
                await _run(server, lambda: announce(_banner(hosted, bound, key, worker)))


async def _run(server: Server, announce: Callable[[], None]) -> None:
    """Serve, and say so once connections are accepted."""
    running = asyncio.ensure_future(server.run())
    listens = asyncio.ensure_future(server.listens())
    await asyncio.wait([running, listens], return_when=asyncio.FIRST_COMPLETED)
    if listens.done():
        announce()
        process.tell_systemd("READY=1")
    listens.cancel()
    await running


async def _migrate(hosted: Hosted) -> None:
    app = hosted.app
    with plain_errors(app.database):
        try:
            names = await app.migrate()
        except PenstockError as error:
            if not (hosted.is_ours and app.applications):
                raise
            logger.warning("Without %s: %s", hosted.name, error)
            app.uninstall()
            names = await app.migrate()
        for name in names:
            logger.info("Migration %s was applied.", name)


@asynccontextmanager
async def _served(
    hosted: Hosted, bound: socket.socket, stop: Stop, *, makes_key: bool = False
) -> AsyncIterator[tuple[Server, str | None]]:
    """The server for an open app, and the first key if one was made."""
    listening = hosted.listening
    service = Service(hosted.app, entry=listening.entry(), open_metrics=listening.open_metrics)
    server = hosted.listening.server(service, bound)
    stop.tell(server)
    if not hosted.listening.is_local:
        logger.warning(
            "The service listens at %s and speaks plain http: keys can be read on the way. Let a "
            "proxy with TLS stand before it, and nobody else reach it.",
            hosted.listening.host,
        )
    async with service:
        yield server, await _first_key(hosted, makes_key)


async def _first_key(hosted: Hosted, makes_key: bool) -> str | None:
    """A key for who sits at this machine; what a service in production says goes into a log."""
    if makes_key and hosted.listening.is_local:
        return await hosted.app.first_key()
    if not await hosted.app.keys():
        logger.warning(
            "There is no key yet, so no program is let in: `penstock keys create` makes one."
        )
    return None


def _banner(
    hosted: Hosted, bound: socket.socket, key: str | None, worker: Worker | None = None
) -> Banner:
    return Banner(
        app=hosted.app,
        name=None if hosted.is_ours and not hosted.app.applications else hosted.name,
        address=hosted.listening.address(bound),
        key=key,
        worker=None if worker is None else worker.name,
        queues=() if worker is None else tuple(worker.states),
    )
