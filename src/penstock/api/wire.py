"""The two ways to ask: one awaits, the other blocks. All else is written once, above them.

What the blocking one calls asynchronous never waits for a loop, so a coroutine on it is run in one
step (`drive`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

import httpx
from msgspec import Struct


class Request(Struct, frozen=True):
    """What is asked; `wait` is how long the answer may be silent, in seconds."""

    method: str
    path: str
    query: Mapping[str, Any] = {}
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    wait: float | None = None

    def built(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The request as httpx sends it."""
        headers = dict(self.headers)
        if self.body is not None:
            headers["content-type"] = "application/json"
        query = {name: value for name, value in self.query.items() if value is not None}
        request = client.build_request(
            self.method, self.path, params=query, content=self.body, headers=headers
        )
        if self.wait is not None:
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": self.wait}
        return request


class Answer(Struct, frozen=True):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire(Protocol):
    """Sends requests. Raises httpx.TransportError if a server cannot be reached."""

    async def ask(self, request: Request) -> Answer: ...

    def lines(self, request: Request) -> AsyncGenerator[Answer | str, None]:
        """First the answer, whole if it is an error and else without its body; then the lines."""
        ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class Awaiting:
    """On httpx's asynchronous client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ask(self, request: Request) -> Answer:
        answer = await self._client.send(request.built(self._client))
        return Answer(answer.status_code, answer.headers, answer.content)

    async def lines(self, request: Request) -> AsyncGenerator[Answer | str, None]:
        answer = await self._client.send(request.built(self._client), stream=True)
        try:
            body = await answer.aread() if answer.status_code != 200 else b""
            yield Answer(answer.status_code, answer.headers, body)
            async for line in answer.aiter_lines():
                yield line
        finally:
            await answer.aclose()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._client.aclose()


class Blocking:
    """On httpx's blocking client."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    async def ask(self, request: Request) -> Answer:
        answer = self._client.send(request.built(self._client))
        return Answer(answer.status_code, answer.headers, answer.content)

    async def lines(self, request: Request) -> AsyncGenerator[Answer | str, None]:
        answer = self._client.send(request.built(self._client), stream=True)
        try:
            body = answer.read() if answer.status_code != 200 else b""
            yield Answer(answer.status_code, answer.headers, body)
            for line in answer.iter_lines():
                yield line
        finally:
            answer.close()

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - there is no loop

    async def close(self) -> None:
        self._client.close()
