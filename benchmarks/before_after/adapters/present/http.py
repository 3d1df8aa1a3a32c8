"""The HTTP API, which lets everybody in: what a key costs is not the question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import HTTPConnection

from benchmarks.before_after.adapters.base.queue import Queue
from benchmarks.before_after.runner.answer import answer
from benchmarks.peers.peer import Settings
from benchmarks.peers.runs import Runs
from penstock import Penstock
from penstock.groups.keys import SCOPES
from penstock.service import Service
from penstock.service.auth import Caller
from penstock.service.server import HttpServer, bind_socket


class Door:
    async def admit(self, connection: HTTPConnection) -> Caller:
        return Caller(name="bench", scopes=frozenset(SCOPES))


class Served(Queue):
    @asynccontextmanager
    async def worker(self, url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
        """Serve; the answer is the port."""
        app = Penstock(url)

        @app.task(name="send")
        async def send(to: str, text: str, times: int = 1) -> None: ...

        service = Service(app, door=Door())
        listening = bind_socket("127.0.0.1", 0)
        server = HttpServer(service, listening)
        async with service:
            running = asyncio.create_task(server.run())
            await server.listens()
            answer(settings, {"port": listening.getsockname()[1]})
            runs.note(0)
            yield
            server.ask_to_stop()
            await running


PEER = Served()
