"""The server that is measured: given a URL and a schema, it tells its port."""

from __future__ import annotations

import asyncio
import signal
import sys

from starlette.requests import HTTPConnection

from penstock.app.app import Penstock
from penstock.service import Service
from penstock.service.auth import Caller
from penstock.service.server import HttpServer, bind_socket


class Anybody:
    """A door for a measurement: all may read."""

    async def admit(self, connection: HTTPConnection) -> Caller:
        return Caller(name="anybody", scopes=frozenset({"read"}))


async def serve(url: str, schema: str) -> None:
    async with Service(Penstock(url, schema=schema), door=Anybody()) as service:
        listening = bind_socket("127.0.0.1", 0)
        server = HttpServer(service, listening)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.ask_to_stop)
        running = asyncio.create_task(server.run())
        await server.listens()
        print(listening.getsockname()[1], flush=True)
        await running


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
