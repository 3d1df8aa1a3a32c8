"""What `penstock serve` and `penstock up` do once they know what is wanted."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from penstock.app import Penstock
from penstock.cli import supervisor
from penstock.cli.banner import Banner
from penstock.cli.listening import Listening
from penstock.cli.opening import opened, plain_errors
from penstock.cli.service import on_stop_signals
from penstock.errors import PenstockError
from penstock.service import Service
from penstock.service.server import Server
from penstock.worker import Worker

logger = logging.getLogger("penstock.service")

Announce = Callable[[Banner], None]


class _Stoppable(Protocol):
    def ask_to_stop(self) -> None: ...


class Stops:
    """Passes on to all that runs that it should stop, from the very start."""

    def __init__(self) -> None:
        self._asked = False
        self._told: list[_Stoppable] = []
        on_stop_signals(self._signalled)

    def tell(self, part: _Stoppable) -> None:
        """From now on tell this one too; at once, if a stop was asked for meanwhile."""
        self._told.append(part)
        if self._asked:
            part.ask_to_stop()

    def _signalled(self, number: signal.Signals) -> None:
        how = "again: the stop is hurried." if self._asked else "a stop; a second one hurries it."
        logger.info("%s: %s", number.name, how)
        self._asked = True
        supervisor.tell("STOPPING=1")
        for part in self._told:
            part.ask_to_stop()


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
    stops = Stops()
    with hosted.listening.bound() as bound:
        async with opened(hosted.app), _served(hosted, bound, stops) as (server, key):
            await _run(server, lambda: announce(_banner(hosted, bound, key)))


async def up(hosted: Hosted, make_worker: Callable[[], Worker] | None, announce: Announce) -> None:
    """Migrations, API and worker in one: what a developer's machine needs."""
    stops = Stops()
    with hosted.listening.bound() as bound:
        await _migrate(hosted)
        async with (
            opened(hosted.app),
            _served(hosted, bound, stops, makes_key=True) as (server, key),
        ):
            if make_worker is None or (hosted.is_ours and not hosted.app.applications):
                await _run(server, lambda: announce(_banner(hosted, bound, key)))
                return
            worker = make_worker()
            stops.tell(worker)
            # Whoever is connected is let go first; the worker, which takes nothing new any more,
            # comes after.
            async with worker:
                await _run(server, lambda: announce(_banner(hosted, bound, key, worker)))


async def _run(server: Server, announce: Callable[[], None]) -> None:
    """Serve, and say so once connections are accepted."""
    running = asyncio.ensure_future(server.run())
    listens = asyncio.ensure_future(server.listens())
    await asyncio.wait([running, listens], return_when=asyncio.FIRST_COMPLETED)
    if listens.done():
        announce()
        supervisor.tell("READY=1")
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
    hosted: Hosted, bound: socket.socket, stops: Stops, *, makes_key: bool = False
) -> AsyncIterator[tuple[Server, str | None]]:
    """The server for an open app, and the first key if one was made."""
    listening = hosted.listening
    service = Service(hosted.app, entry=listening.entry(), open_metrics=listening.open_metrics)
    server = hosted.listening.server(service, bound)
    stops.tell(server)
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
