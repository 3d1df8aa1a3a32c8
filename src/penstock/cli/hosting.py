"""Run the HTTP service of an app, for `penstock serve` and `penstock up`."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version

from penstock.app.app import Penstock
from penstock.cli.database import explain_database_errors, open_app
from penstock.cli.listening import ListenOptions
from penstock.cli.process import StopSignals, notify_systemd
from penstock.errors import PenstockError
from penstock.hosts import place
from penstock.service import Service
from penstock.service.app import PREFIX
from penstock.service.server import HttpServer
from penstock.worker import Worker

logger = logging.getLogger("penstock.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """What a service prints when it starts: its addresses, and its first key if one was created.

    The key is printed only this once.
    """

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
            "database": _describe_database(self.app),
            "schema": self.app.database.schema,
            "worker": self.worker,
            "queues": list(self.queues),
            "key": self.key,
        }

    def __str__(self) -> str:
        return "\n".join([f"Penstock {version('penstock')}", *map(_format_line, self._lines()), ""])

    def _lines(self) -> list[tuple[str, str]]:
        api = self.address + PREFIX
        rows = [
            ("API", api),
            ("described at", f"{api}/openapi.json"),
            ("probes", f"{self.address}/livez, /readyz, /metrics"),
            ("tasks of", self.name or "no app: jobs can be looked at and changed, none enqueued"),
            ("database", f"{_describe_database(self.app)}, schema {self.app.database.schema}"),
        ]
        if self.worker is not None:
            rows.append(("worker", f"{self.worker} for {', '.join(self.queues)}"))
        if self.key is not None:
            rows.append(("first key", f"{self.key}  (shown this once; keep it)"))
        return rows


def _format_line(row: tuple[str, str]) -> str:
    return f"  {row[0]:<14}{row[1]}"


def _describe_database(app: Penstock) -> str:
    """Name the database without its password."""
    if app.database.url is None:
        return f"embedded Postgres in {app.database.data_dir or '.penstock'}"
    return place(app.database.url)


Announce = Callable[[Banner], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApp:
    """An app to serve, and the address to serve it on."""

    app: Penstock
    name: str | None
    listening: ListenOptions
    # No app was named: applications that the database cannot support are left out.
    is_default: bool = False


async def serve(served: ServedApp, announce: Announce) -> None:
    """Run the HTTP API of an app, without a worker."""
    stop = StopSignals("the service stops", served.app.database)
    with served.listening.bound() as bound, stop.cancelling_startup() as started:
        async with open_app(served.app), _open_service(served, bound, stop) as (server, key):
            started()
            await _serve_until_stopped(server, lambda: announce(_banner(served, bound, key)))


async def up(
    served: ServedApp, make_worker: Callable[[], Worker] | None, announce: Announce
) -> None:
    """Apply migrations, and run the API and a worker in one process, for development."""
    stop = StopSignals("everything stops", served.app.database)
    with served.listening.bound() as bound, stop.cancelling_startup() as started:
        await _migrate(served)
        async with (
            open_app(served.app),
            _open_service(served, bound, stop, makes_key=True) as (server, key),
        ):
            if make_worker is None or (served.is_default and not served.app.applications):
                started()
                await _serve_until_stopped(server, lambda: announce(_banner(served, bound, key)))
                return
            worker = make_worker()
            stop.add(worker)
            worker.on_stop = stop.allow_seconds
            # Connections end first, then the worker; it takes no new jobs meanwhile.
            async with worker:
                started()
                await _serve_until_stopped(
                    server, lambda: announce(_banner(served, bound, key, worker))
                )


async def _serve_until_stopped(server: HttpServer, announce: Callable[[], None]) -> None:
    """Run the server, and announce it once it accepts connections."""
    running = asyncio.ensure_future(server.run())
    listens = asyncio.ensure_future(server.listens())
    await asyncio.wait([running, listens], return_when=asyncio.FIRST_COMPLETED)
    if listens.done():
        announce()
        notify_systemd("READY=1")
    listens.cancel()
    await running


async def _migrate(served: ServedApp) -> None:
    app = served.app
    with explain_database_errors(app.database):
        try:
            names = await app.migrate()
        except PenstockError as error:
            if not (served.is_default and app.applications):
                raise
            logger.warning("The service starts without %s: %s", served.name, error)
            app.uninstall()
            names = await app.migrate()
        for name in names:
            logger.info("Migration %s was applied.", name)


@asynccontextmanager
async def _open_service(
    served: ServedApp, bound: socket.socket, stop: StopSignals, *, makes_key: bool = False
) -> AsyncIterator[tuple[HttpServer, str | None]]:
    """Yield the server for an open app, and the first key if one was created."""
    listening = served.listening
    service = Service(served.app, entry=listening.entry(), open_metrics=listening.open_metrics)
    server = served.listening.server(service, bound)
    stop.add(server)
    if not served.listening.is_local:
        logger.warning(
            "The service listens on %s with plain http, so keys can be read in transit. Put a "
            "proxy with TLS in front of it, and let only the proxy reach it.",
            served.listening.host,
        )
    async with service:
        yield server, await _first_key(served, makes_key)


async def _first_key(served: ServedApp, makes_key: bool) -> str | None:
    """Create and return a first key, if there is none and `makes_key` is set for a local service.

    Otherwise warn if there is no key: the output of a production service ends up in a log.
    """
    if makes_key and served.listening.is_local:
        return await served.app.first_key()
    if not await served.app.keys():
        logger.warning(
            "There are no API keys yet, so programs cannot use the API. Create one with "
            "`penstock keys create`."
        )
    return None


def _banner(
    served: ServedApp, bound: socket.socket, key: str | None, worker: Worker | None = None
) -> Banner:
    return Banner(
        app=served.app,
        name=None if served.is_default and not served.app.applications else served.name,
        address=served.listening.address(bound),
        key=key,
        worker=None if worker is None else worker.name,
        queues=() if worker is None else tuple(worker.states),
    )
