"""What every request passes: limits on number, size and form, a login, and security headers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import ConfigError, PenstockError
from penstock.service.auth import CALLER, Authenticator
from penstock.service.enqueue import IDEMPOTENCY_HEADER, key_not_supported
from penstock.service.hosts import LOOPBACK, Entry, host_name, is_https
from penstock.service.live.streams import RECONNECT_MS
from penstock.service.problems import Problem, expect_json, from_error, is_utf8, problem_response
from penstock.service.routing import RouteFlags, RouteMatcher

MIB: Final = 1024 * 1024
JSON_MEDIA_TYPE: Final = "application/json"
# The body of a route that takes a few short fields.
MAX_SMALL_BODY_BYTES: Final = 16 * 1024
# A larger body takes a millisecond or more to decode, so a thread does it.
MAX_BODY_BYTES_ON_LOOP: Final = 64 * 1024
CLOSE_HEADERS: Final = {"connection": "close"}


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


class BodyLimiter:
    """An ASGI app whose bodies are within bounds; below `prefix` they are JSON.

    A route that is marked as `streamed` takes its body itself.
    """

    def __init__(self, app: ASGIApp, bounds: Bounds, prefix: str, marked: RouteFlags) -> None:
        self._app = app
        self._streamed = marked.streamed
        self._little = marked.takes_little
        self._bounds = bounds
        self._prefix = prefix
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not _has_body(headers) or self._streamed.lead(scope["method"], route_path(scope)):
            await self._app(scope, receive, send)
            return
        body, path = bytearray(), route_path(scope)
        is_little = self._little.lead(scope["method"], path)
        most = min(MAX_SMALL_BODY_BYTES, self._bounds.body) if is_little else self._bounds.body
        try:
            await self._take(headers, receive, body, most, path.startswith(self._prefix))
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)
        except _ClientGone:
            pass
        else:
            await self._app(scope, _with_body(bytes(body), receive), send)
        finally:
            self._held -= len(body)

    async def _take(
        self, headers: Headers, receive: Receive, body: bytearray, most: int, is_json: bool
    ) -> None:
        _check_headers(headers, most, is_json)
        await self._read(receive, body, most)
        if not is_json or not body:
            return
        if len(body) > MAX_BODY_BYTES_ON_LOOP:
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
            raise Problem(408, "too-slow", told, headers=CLOSE_HEADERS) from None

    async def _read_on(self, receive: Receive, body: bytearray, most: int) -> bool:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        part: bytes = message.get("body", b"")
        body += part
        self._held += len(part)
        if len(body) > most:
            raise _too_large(most)
        if self._held > self._bounds.bodies:
            raise Problem(503, "busy", "Too much is being sent at once.", headers=CLOSE_HEADERS)
        return bool(message.get("more_body", False))


class _ClientGone(Exception):
    """The client has left before its body was complete."""


def route_path(scope: Scope) -> str:
    """The path as the app's own routes have it, wherever it is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _check_headers(headers: Headers, most: int, is_json: bool) -> None:
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise _unsupported("The body is taken as it is: send it without content-encoding.")
    if is_json and not _is_json(headers.get("content-type", "")):
        raise _unsupported(f"The body must be {JSON_MEDIA_TYPE} in UTF-8.")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 15 or int(length) > most:
        raise _too_large(most)


def _too_large(most: int) -> Problem:
    told = f"A body has at most {most:,} bytes here. Send less in one request, or a reference to "
    return Problem(413, "too-large", told + "what is large.", headers=CLOSE_HEADERS)


def _is_json(kind: str) -> bool:
    name, _, rest = kind.lower().partition(";")
    charset = rest.partition("charset=")[2].strip(' "')
    return name.strip() == JSON_MEDIA_TYPE and charset in ("", "utf-8", "utf8")


def _unsupported(told: str) -> Problem:
    return Problem(415, "unsupported-media-type", told, headers=CLOSE_HEADERS)


def _with_body(body: bytes, receive: Receive) -> Receive:
    """The body at once, then what comes after it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return first.pop() if first else await receive()

    return receiving


# Verb and path; all else is for those who were let in.
PUBLIC_ROUTES: Final = frozenset(
    {
        ("GET", "/livez"),
        ("GET", "/readyz"),
        # They tell anybody that the database is away, and look themselves at who asks for more.
        ("GET", "/metrics"),
        ("GET", "/api/v1/health"),
        ("GET", "/static/penstock-live.js"),
        # The page says nothing itself: what it shows it asks for, with a key or a login.
        ("GET", "/docs"),
        ("GET", "/static/docs.js"),
        ("GET", "/static/rapidoc.js"),
        ("POST", "/api/v1/login"),
    }
)
# Asked by address, by those who watch over many.
ANY_HOST_PATHS: Final = frozenset({"/livez", "/readyz"})
LIVE_PATH: Final = "/api/v1/live"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# What decides who asks and what is asked. A proxy in front may read another of two than we do.
SINGLE_HEADERS: Final = (
    "host",
    "origin",
    "authorization",
    "content-type",
    "idempotency-key",
    "x-csrf-token",
    "x-forwarded-proto",
)

SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
RAW_SECURITY_HEADERS: Final = [
    (name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
]
HSTS: Final = b"max-age=31536000"


class Security:
    """ASGI middleware: hosts, origins, callers, headers. A route's own headers are left alone."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        door: Authenticator,
        entry: Entry,
        marked: RouteFlags,
    ) -> None:
        self._app = app
        self._door = door
        self._entry = entry
        self._unguarded = marked.unguarded
        self._keyed = marked.keyed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        sealed = SecuredSend(connection, self._entry, send)
        try:
            early = await self._pass(connection)
            if early is None:
                await self._app(scope, receive, sealed)
                return
        except Problem as problem:
            early = problem_response(problem)
        except PenstockError as error:
            early = problem_response(from_error(error))
        except Exception:
            if scope["type"] == "http" and not sealed.has_begun:
                told = "Something is wrong here; the log of the service says what."
                # The server closes the connection after an exception, so the client should know.
                fault = Problem(500, "fault", told, headers={"connection": "close"})
                await problem_response(fault)(scope, receive, sealed)
            raise
        await _send_refusal(early, scope, receive, sealed)

    async def _pass(self, connection: HTTPConnection) -> Response | None:
        """Let a connection through, or say what it is answered instead."""
        scope = connection.scope
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        verb = scope.get("method", "WEBSOCKET")
        self._check_single(connection)
        if path not in ANY_HOST_PATHS:
            self._check_host(connection)
        _check_text(connection)
        if is_preflight(connection):
            return self._preflight(connection)
        if _has_ticket(connection, verb, path):
            return None
        if verb not in SAFE_METHODS:
            self._check_origin(connection)
        if (
            verb == "POST"
            and IDEMPOTENCY_HEADER in connection.headers
            and not self._keyed.lead(verb, path)
        ):
            raise key_not_supported(path)
        if (verb, path) not in PUBLIC_ROUTES and not self._unguarded.lead(verb, path):
            scope[CALLER] = await self._door.admit(connection)
        return None

    def _check_single(self, connection: HTTPConnection) -> None:
        for name in (*SINGLE_HEADERS, self._entry.edge_header):
            if name is not None and len(connection.headers.getlist(name)) > 1:
                told = f"The request has more than one header {name}: send one."
                raise Problem(400, "header-twice", told)

    def _check_host(self, connection: HTTPConnection) -> None:
        host = connection.headers.get("host", "")
        if not self._entry.knows(host):
            told = f"This service does not go by the name {host!r}; `hosts` are those it goes by."
            raise Problem(400, "unknown-host", told)

    def _check_origin(self, connection: HTTPConnection) -> None:
        """A page of somebody else's changes nothing here, whatever the browser sends with it."""
        origin = connection.headers.get("origin")
        if origin is not None and not self._is_ours(origin, connection):
            told = f"Pages of {origin} may not ask this; `origins` are those that may."
            raise Problem(403, "foreign-origin", told)

    def _is_ours(self, origin: str, connection: HTTPConnection) -> bool:
        if origin in self._entry.origins:
            return True
        try:
            return urlsplit(origin).netloc == connection.headers.get("host", "")
        except ValueError:  # "http://[x" is no address.
            return False

    def _preflight(self, connection: HTTPConnection) -> Response:
        self._check_origin(connection)
        return Response(
            status_code=204,
            headers={
                "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
                "access-control-allow-headers": (
                    "authorization, content-type, idempotency-key, last-event-id"
                ),
                "access-control-max-age": "600",
            },
        )


def is_preflight(connection: HTTPConnection) -> bool:
    """Whether a request is a CORS preflight."""
    return (
        connection.scope.get("method") == "OPTIONS"
        and "access-control-request-method" in connection.headers
    )


class SecuredSend:
    """Sends answers on with the headers that each has, unless a route has set them itself."""

    def __init__(self, connection: HTTPConnection, entry: Entry, send: Send) -> None:
        self._send = send
        self._headers = _security_headers(connection, entry)
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.has_begun = True
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            message["headers"] = given + [each for each in self._headers if each[0] not in names]
        await self._send(message)


def _security_headers(connection: HTTPConnection, entry: Entry) -> list[tuple[bytes, bytes]]:
    """The headers of every answer to this connection."""
    headers = list(RAW_SECURITY_HEADERS)
    origin = connection.headers.get("origin")
    if origin is not None and origin in entry.origins:
        headers.append((b"access-control-allow-origin", origin.encode()))
        headers.append((b"access-control-expose-headers", b"location, retry-after"))
    else:
        headers.append((b"cross-origin-resource-policy", b"same-origin"))
    if entry.origins:
        headers.append((b"vary", b"origin"))
    # With HSTS for localhost, a browser would refuse plain HTTP for every other service there.
    is_here = host_name(connection.headers.get("host", "")) in LOOPBACK
    if not is_here and is_https(connection, entry):
        headers.append((b"strict-transport-security", HSTS))
    return headers


def _check_text(connection: HTTPConnection) -> None:
    """Refuse what is no text that Postgres stores, so that it names nothing: NUL, and no UTF-8."""
    # Starlette would decode it to another text, with replacement characters.
    raw_path = connection.scope.get("raw_path") or b""
    for place, raw in (("path", raw_path), ("query", connection.scope["query_string"])):
        if b"%" in raw and not is_utf8(unquote_to_bytes(raw)):
            raise Problem(400, "unreadable", f"The {place} is not UTF-8.")
    if "\0" in connection.scope["path"]:
        raise Problem(400, "unreadable", "The path may not contain NUL (%00).")
    for name, value in connection.query_params.multi_items():
        if "\0" in name or "\0" in value:
            told = "it contains NUL (%00), which no text in the database can"
            raise Problem(422, "does-not-fit", f"{name}: {told}", fields=[(name, told)])


def _has_ticket(connection: HTTPConnection, verb: str, path: str) -> bool:
    """Whether it comes with a ticket, which streams look at themselves, and nothing else does."""
    is_stream = path == LIVE_PATH or path.startswith(f"{LIVE_PATH}/")
    return (
        is_stream and verb in ("GET", "WEBSOCKET") and bool(connection.query_params.get("ticket"))
    )


async def _send_refusal(early: Response, scope: Scope, receive: Receive, send: Any) -> None:
    """Answer without the app. A WebSocket is refused before it is one, with the same words."""
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await early(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": str(early.status_code)})


EVENT_STREAM: Final = "text/event-stream"
# In the scope of a request on a connection too many: the Problem that is its answer.
NO_ROOM: Final = "penstock.no_room"


class RequestCount:
    """Requests below `prefix`, until they begin to be answered. Probes are not among them: a server
    that is busy lives. Streams that are being opened are counted apart: a page that opens many
    keeps nobody from enqueueing.
    """

    def __init__(self, most: int, most_openings: int, prefix: str, streams: RouteMatcher) -> None:
        """`streams` are the routes that answer with server-sent events."""
        self._streams = streams
        self.most = most
        self.most_openings = most_openings
        self.prefix = prefix
        self.under_way = 0
        self.openings = 0

    @property
    def is_full(self) -> bool:
        return self.under_way >= self.most

    @property
    def is_full_of_openings(self) -> bool:
        return self.openings >= self.most_openings

    def opens_stream(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request asks for events, as an `EventSource` does, of a route that has them.

        The names of the headers must be in lower case.
        """
        return (
            method == "GET"
            and any(EVENT_STREAM.encode() in value for name, value in headers if name == b"accept")
            and self._streams.lead(method, path)
        )

    def refusal(self) -> Problem:
        """What one too many is told."""
        told = f"{self.most:,} requests are being answered, and no more are begun."
        return Problem(503, "busy", told, headers=dict(SECURITY_HEADERS))


def empty_stream(*, is_for_any_page: bool) -> Response:
    """The answer to a stream that cannot be opened now: an empty one.

    After any other status an `EventSource` never asks again. It has to be told when to: not all of
    them in one moment.
    """
    headers = dict(SECURITY_HEADERS) | {"x-accel-buffering": "no"}
    if is_for_any_page:
        headers["access-control-allow-origin"] = "*"
    body = f"retry: {random.randint(*RECONNECT_MS)}\n\n"
    return Response(body, 200, headers, EVENT_STREAM)


# The server is full, stops, or has no database: a stream may be opened later.
UNAVAILABLE = 503


class RequestLimiter:
    """Counts requests, and tells one too many to come again."""

    def __init__(self, app: ASGIApp, *, crowd: RequestCount, entry: Entry) -> None:
        self._app = app
        self._entry = entry
        self._crowd = crowd
        self._refusal = problem_response(crowd.refusal())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        no_room = scope.get(NO_ROOM)
        if scope["type"] != "http" or not (
            no_room or route_path(scope).startswith(self._crowd.prefix)
        ):
            await self._app(scope, receive, send)
        elif is_preflight(HTTPConnection(scope)):
            # A preflight needs no database, and lets a page read that the server is full.
            await self._app(scope, receive, send)
        elif self._crowd.opens_stream(scope["method"], route_path(scope), scope["headers"]):
            await self._opened(scope, receive, send)
        elif no_room:
            await problem_response(no_room)(scope, receive, self._sealed(scope, send))
        elif self._crowd.is_full:
            await self._refusal(scope, receive, self._sealed(scope, send))
        else:
            await self._counted(scope, receive, send)

    def _sealed(self, scope: Scope, send: Send) -> SecuredSend:
        """Add the headers that let pages of other origins read the limiter's own answers."""
        return SecuredSend(HTTPConnection(scope), self._entry, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._crowd.under_way += 1
        is_begun = False

        async def sending(message: Message) -> None:
            # What has begun to be answered counts no more: a stream may go on for hours.
            nonlocal is_begun
            if not is_begun:
                is_begun = True
                self._crowd.under_way -= 1
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            if not is_begun:
                self._crowd.under_way -= 1

    async def _opened(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a stream; one that cannot be opened now is an empty one, to be asked for again."""
        # Who has a ticket needs no login of the browser's: any page may read the answer.
        has_ticket = bool(QueryParams(scope["query_string"]).get("ticket"))
        empty, sealed = empty_stream(is_for_any_page=has_ticket), self._sealed(scope, send)
        if self._crowd.is_full_of_openings or NO_ROOM in scope:
            await empty(scope, receive, sealed)
            return
        self._crowd.openings += 1
        is_begun = is_refused = False

        async def sending(message: Message) -> None:
            nonlocal is_begun, is_refused
            if not is_begun:
                is_begun = True
                self._crowd.openings -= 1
                is_refused = message["status"] == UNAVAILABLE
                if is_refused:
                    await empty(scope, receive, sealed)
            if not is_refused:
                await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            if not is_begun:
                self._crowd.openings -= 1
