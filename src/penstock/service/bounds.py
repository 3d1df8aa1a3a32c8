"""What a request may cost: how many there may be, and the size, time and form of a body.

A body is taken whole, within bounds, before the app is asked: it sees no half of one, and a client
that is slow holds up nothing but its own connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import ConfigError
from penstock.service.problem import Problem, answer
from penstock.service.strict_json import expect_json
from penstock.service.ways import Marked

MIB: Final = 1024 * 1024
JSON: Final = "application/json"
# The body of a route that takes a few short fields.
MAX_LITTLE_BODY: Final = 16 * 1024
# A larger body takes a millisecond or more to decode, so a thread does it.
MAX_BODY_READ_ON_LOOP: Final = 64 * 1024
CLOSE: Final = {"connection": "close"}


class Bounds(Struct, frozen=True, kw_only=True):
    """How much is let in.

    `requests` are answered at once, and `openings` of streams beside them. `body` is the size of
    one in bytes and `bodies` that of all together; `seconds` are what a client has to send its
    body; `queues` are the names that callers may use within an hour beside the queues of tasks.
    More is refused: a body with 413, a slow one with 408, a stream with an empty one that
    says when to come back, a queue with 422, the rest with 503 and `retry-after`.
    """

    requests: int = 256
    openings: int = 1024
    body: int = 4 * MIB
    bodies: int = 64 * MIB
    seconds: float = 20.0
    queues: int = 1000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not (value := getattr(self, name)) > 0:
                raise ConfigError(f"bounds.{name}", value, "more than 0")


class Bounded:
    """An ASGI app whose bodies are within bounds; below `prefix` they are JSON.

    A route that is marked as `streamed` takes its body itself.
    """

    def __init__(self, app: ASGIApp, bounds: Bounds, prefix: str, marked: Marked) -> None:
        self._app = app
        self._streamed = marked.streamed
        self._little = marked.takes_little
        self._bounds = bounds
        self._prefix = prefix
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not _has_body(headers) or self._streamed.lead(scope["method"], path_below(scope)):
            await self._app(scope, receive, send)
            return
        body, path = bytearray(), path_below(scope)
        is_little = self._little.lead(scope["method"], path)
        most = min(MAX_LITTLE_BODY, self._bounds.body) if is_little else self._bounds.body
        try:
            await self._take(headers, receive, body, most, path.startswith(self._prefix))
        except Problem as problem:
            await answer(problem)(scope, receive, send)
        except _Gone:
            pass
        else:
            await self._app(scope, _replayed(bytes(body), receive), send)
        finally:
            self._held -= len(body)

    async def _take(
        self, headers: Headers, receive: Receive, body: bytearray, most: int, is_json: bool
    ) -> None:
        _expect_fitting(headers, most, is_json)
        await self._read(receive, body, most)
        if not is_json or not body:
            return
        if len(body) > MAX_BODY_READ_ON_LOOP:
            await asyncio.to_thread(expect_json, body)
        else:
            expect_json(body)

    async def _read(self, receive: Receive, body: bytearray, most: int) -> None:
        try:
            async with asyncio.timeout(self._bounds.seconds):
                while await self._read_on(receive, body, most):
                    pass
        except TimeoutError:
            told = f"The body did not come within {self._bounds.seconds:g} s."
            raise Problem(408, "too-slow", told, headers=CLOSE) from None

    async def _read_on(self, receive: Receive, body: bytearray, most: int) -> bool:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part: bytes = message.get("body", b"")
        body += part
        self._held += len(part)
        if len(body) > most:
            raise _too_large(most)
        if self._held > self._bounds.bodies:
            raise Problem(503, "busy", "Too much is being sent at once.", headers=CLOSE)
        return bool(message.get("more_body", False))


class _Gone(Exception):
    """The client has left before its body was complete."""


def path_below(scope: Scope) -> str:
    """The path as the app's own routes have it, wherever it is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _expect_fitting(headers: Headers, most: int, is_json: bool) -> None:
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise _unsupported("The body is taken as it is: send it without content-encoding.")
    if is_json and not _is_json(headers.get("content-type", "")):
        raise _unsupported(f"The body must be {JSON} in UTF-8.")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 15 or int(length) > most:
        raise _too_large(most)


def _too_large(most: int) -> Problem:
    told = f"A body has at most {most:,} bytes here. Send less in one request, or a reference to "
    return Problem(413, "too-large", told + "what is large.", headers=CLOSE)


def _is_json(kind: str) -> bool:
    name, _, rest = kind.lower().partition(";")
    charset = rest.partition("charset=")[2].strip(' "')
    return name.strip() == JSON and charset in ("", "utf-8", "utf8")


def _unsupported(told: str) -> Problem:
    return Problem(415, "unsupported-media-type", told, headers=CLOSE)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body at once, then what comes after it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return first.pop() if first else await receive()

    return receiving
