"""A server of its own process, with the database or without: `python -m benchmarks.http.serve`."""

from __future__ import annotations

import sys
from typing import Any

from starlette.requests import HTTPConnection

from penstock import Penstock
from penstock.connect.enqueue import Enqueued
from penstock.groups.keys import SCOPES
from penstock.service import Service
from penstock.service.auth import Caller
from penstock.service.server import HttpServer, bind_socket
from penstock.tasks import Request
from penstock.worker.processes import run


class AcceptEverybody:
    """Accepts every caller, since the benchmark does not measure keys."""

    async def admit(self, connection: HTTPConnection) -> Caller:
        return Caller(name="bench", scopes=frozenset(SCOPES))


class StoreNothing:
    """Answers each request as if its job had been stored."""

    async def enqueue(self, request: Request[Any], tenant: str | None) -> Enqueued[Any]:
        return Enqueued("1")

    async def wait_until_empty(self) -> None: ...


async def serve(url: str, is_stored: bool) -> None:
    app = Penstock(url)

    @app.task(name="send")
    async def send(to: str, text: str, times: int = 1) -> None: ...

    service = Service(app, door=AcceptEverybody())
    if not is_stored:
        service.asgi.state.runtime.group_commit = StoreNothing()
    listening = bind_socket("127.0.0.1", 0)
    server = HttpServer(service, listening)
    async with service:
        print(listening.getsockname()[1], flush=True)
        await server.run()


if __name__ == "__main__":
    run(serve(sys.argv[1], sys.argv[2] == "stored"))
