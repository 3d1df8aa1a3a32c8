"""Requests to the API: sent by an awaiting or a blocking client, repeated where that is safe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

import httpx
import msgspec
from msgspec import Struct

from penstock.api.errors import error_of, problem_of
from penstock.errors import ServiceUnreachable


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


T = TypeVar("T")

PREFIX: Final = "/api/v1"
TRIES: Final = 4
FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 30.0
AGAIN: Final = frozenset({429, 502, 503, 504})
# So a server says that it has not begun: whatever was asked may be asked again.
NOT_BEGUN: Final = frozenset({"busy", "too-many-requests", "not-ready"})


class Asking:
    """Asks a service over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def ask(
        self,
        /,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: Any = None,
        safe: bool | None = None,
        **query: Any,
    ) -> T:
        """Any route of the API by its path below `/api/v1`; `kind` is what the answer holds.

        `safe` says that asking twice does no harm; a GET is.
        """
        encoded = None if body is None else msgspec.json.encode(body)
        request = Request(method, PREFIX + path, query, encoded)
        answer = await self._answered(request, method == "GET" if safe is None else safe)
        if answer.status >= 400:
            raise error_of(answer.status, answer.body)
        return msgspec.json.decode(answer.body or b"null", type=kind)

    async def _answered(self, request: Request, is_safe: bool) -> Answer:
        pauses = _growing()
        for tries in range(1, TRIES + 1):
            pause = next(pauses)
            try:
                answer = await self._wire.ask(request)
            except httpx.TransportError as error:
                is_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if tries == TRIES or (is_sent and not is_safe):
                    raise ServiceUnreachable(why(error), is_sent=is_sent) from error
            else:
                if tries == TRIES or not _may_ask_again(answer, is_safe):
                    return answer
                pause = max(pause, _told_to_wait(answer))
            await self._wire.pause(min(pause, LONGEST_PAUSE))
        raise AssertionError("unreachable")


def why(error: httpx.TransportError) -> str:
    """The message of an error, or its class: most timeouts have no message."""
    return str(error) or type(error).__name__


def _may_ask_again(answer: Answer, is_safe: bool) -> bool:
    if answer.status not in AGAIN:
        return False
    return is_safe or problem_of(answer.body).kind in NOT_BEGUN


def _told_to_wait(answer: Answer) -> float:
    told = answer.headers.get("retry-after", "")
    return float(told) if told.isdecimal() else 0.0


def _growing() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause *= 2
