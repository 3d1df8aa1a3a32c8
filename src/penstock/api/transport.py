"""Send requests to the API with an asynchronous or a blocking client, and retry safe ones."""

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


class ApiRequest(Struct, frozen=True):
    """One request. `wait` is the read timeout in seconds, or None for the client's own timeout."""

    method: str
    path: str
    query: Mapping[str, Any] = {}
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    wait: float | None = None

    def as_httpx(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request in the form that httpx sends."""
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


class ApiResponse(Struct, frozen=True):
    """A response whose body has been read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Sends requests. Raises httpx.TransportError if a server cannot be reached."""

    async def ask(self, request: ApiRequest) -> ApiResponse: ...

    def lines(self, request: ApiRequest) -> AsyncGenerator[ApiResponse | str, None]:
        """Yield the response first, and then each line of its body.

        Only a response whose status is not 200 contains the body itself.
        """
        ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class AsyncTransport:
    """Sends requests by httpx's asynchronous client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ask(self, request: ApiRequest) -> ApiResponse:
        answer = await self._client.send(request.as_httpx(self._client))
        return ApiResponse(answer.status_code, answer.headers, answer.content)

    async def lines(self, request: ApiRequest) -> AsyncGenerator[ApiResponse | str, None]:
        answer = await self._client.send(request.as_httpx(self._client), stream=True)
        try:
            body = await answer.aread() if answer.status_code != 200 else b""
            yield ApiResponse(answer.status_code, answer.headers, body)
            async for line in answer.aiter_lines():
                yield line
        finally:
            await answer.aclose()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._client.aclose()


class SyncTransport:
    """Sends requests by httpx's blocking client. Its coroutines block and need no event loop."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    async def ask(self, request: ApiRequest) -> ApiResponse:
        answer = self._client.send(request.as_httpx(self._client))
        return ApiResponse(answer.status_code, answer.headers, answer.content)

    async def lines(self, request: ApiRequest) -> AsyncGenerator[ApiResponse | str, None]:
        answer = self._client.send(request.as_httpx(self._client), stream=True)
        try:
            body = answer.read() if answer.status_code != 200 else b""
            yield ApiResponse(answer.status_code, answer.headers, body)
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
MAX_TRIES: Final = 4
FIRST_PAUSE_S: Final = 0.25
MAX_PAUSE_S: Final = 30.0
RETRY_STATUSES: Final = frozenset({429, 502, 503, 504})
# With these kinds a server says that it has done nothing, so any request may be repeated.
NOT_BEGUN_KINDS: Final = frozenset({"busy", "too-many-requests", "not-ready"})


class ApiCalls:
    """Calls any route of the API. All methods of the client use it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

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
        """Call any route, by its path below `/api/v1`, and decode its answer as `kind`.

        A request that is `safe` to repeat is sent again if its answer is lost. By default only a
        GET is safe.
        """
        encoded = None if body is None else msgspec.json.encode(body)
        request = ApiRequest(method, PREFIX + path, query, encoded)
        answer = await self._ask_with_retries(request, method == "GET" if safe is None else safe)
        if answer.status >= 400:
            raise error_of(answer.status, answer.body)
        return msgspec.json.decode(answer.body or b"null", type=kind)

    async def _ask_with_retries(self, request: ApiRequest, is_safe: bool) -> ApiResponse:
        pauses = _growing_pauses()
        for attempt in range(1, MAX_TRIES + 1):
            pause = next(pauses)
            try:
                answer = await self._transport.ask(request)
            except httpx.TransportError as error:
                is_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if attempt == MAX_TRIES or (is_sent and not is_safe):
                    raise ServiceUnreachable(why(error), is_sent=is_sent) from error
            else:
                if attempt == MAX_TRIES or not _may_retry(answer, is_safe):
                    return answer
                pause = max(pause, _retry_after_s(answer))
            await self._transport.pause(min(pause, MAX_PAUSE_S))
        raise AssertionError("unreachable")


def why(error: httpx.TransportError) -> str:
    """Return the message of an error, or its class, since most timeouts have no message."""
    return str(error) or type(error).__name__


def _may_retry(answer: ApiResponse, is_safe: bool) -> bool:
    if answer.status not in RETRY_STATUSES:
        return False
    return is_safe or problem_of(answer.body).kind in NOT_BEGUN_KINDS


def _retry_after_s(answer: ApiResponse) -> float:
    seconds = answer.headers.get("retry-after", "")
    return float(seconds) if seconds.isdecimal() else 0.0


def _growing_pauses() -> Iterator[float]:
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause *= 2
