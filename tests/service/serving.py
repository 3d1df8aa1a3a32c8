"""Servers of a service on real ports, and clients that listen to them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import uvicorn
from starlette.requests import HTTPConnection

from penstock import Penstock
from penstock.service import Service
from penstock.service.caller import Caller
from penstock.service.problem import Problem
from penstock.service.scopes import SCOPES


class KnownByName:
    """A door that takes callers by the names they give: `x-caller: ada`, `ada@acme` of a tenant."""

    async def admit(self, connection: HTTPConnection) -> Caller:
        given = connection.headers.get("x-caller") or connection.cookies.get("caller")
        if not given:
            raise Problem(401, "unknown", "Who are you?")
        name, _, tenant = given.partition("@")
        return Caller(name=name, scopes=frozenset(SCOPES), tenant=tenant or None)


class Address:
    """Where a server is."""

    def __init__(self, port: int, service: Service) -> None:
        self.port = port
        self.service = service
        self.url = f"http://127.0.0.1:{port}"
        self.live = f"{self.url}/api/v1/live"
        self.socket = f"ws://127.0.0.1:{port}/api/v1/live"


@asynccontextmanager
async def serving(app: Penstock, port: int = 0, **settings: Any) -> AsyncIterator[Address]:
    """A service behind a real server, in this process."""
    service = Service(app, door=KnownByName(), **settings)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        service, lifespan="off", log_level="warning", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    async with service:
        task = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            yield Address(listening.getsockname()[1], service)
        finally:
            service.ask_to_stop()
            server.should_exit = True
            await task
            listening.close()


class Heard:
    """What one client of an event stream has heard, over all its connections."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.comments = 0
        self.retries = 0
        self.last_id = ""
        self.status = 0
        self.headers: Any = {}

    @property
    def states(self) -> list[str]:
        return [event["state"]["state"] for event in self.events]

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]

    def line(self, line: str) -> None:
        field, _, value = line.partition(": ")
        if field == "data":
            self.events.append(msgspec.json.decode(value))
        elif field == "id":
            self.last_id = value
        elif field == "retry":
            self.retries += 1
        elif line.startswith(":"):
            self.comments += 1


async def hear(
    url: str,
    heard: Heard | None = None,
    *,
    caller: str | None = "ada",
    until: Callable[[Heard], bool] = lambda _: False,
) -> Heard:
    """Listen until the stream ends, or there is enough."""
    heard = heard or Heard()
    headers = {"accept": "text/event-stream"}
    if caller:
        headers["x-caller"] = caller
    if heard.last_id:
        headers["last-event-id"] = heard.last_id
    async with (
        httpx.AsyncClient(timeout=httpx.Timeout(30)) as client,
        client.stream("GET", url, headers=headers) as answer,
    ):
        heard.status, heard.headers = answer.status_code, answer.headers
        if answer.status_code != 200:
            await answer.aread()
            return heard
        async for line in answer.aiter_lines():
            heard.line(line)
            if until(heard):
                break
    return heard


async def hear_on(urls: list[str], heard: Heard, **options: Any) -> Heard:
    """Listen as a browser does: over breaks, at one server after the other, until the end."""
    turn = 0
    while not (heard.events and heard.last["final"]):
        try:
            await hear(urls[turn % len(urls)], heard, **options)
        except httpx.HTTPError:
            await asyncio.sleep(0.05)
        turn += 1
    return heard
