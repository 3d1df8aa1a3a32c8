"""ASGI middleware of the API: limits on requests and bodies, authentication, security headers."""

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
# Routes marked as `small_body` take no more.
MAX_SMALL_BODY_BYTES: Final = 16 * 1024
# A larger body takes a millisecond or more to decode, so a thread does it.
MAX_BODY_BYTES_ON_LOOP: Final = 64 * 1024
CLOSE_HEADERS: Final = {"connection": "close"}


class Bounds(Struct, frozen=True, kw_only=True):
    """How many requests a service accepts at once, and how large they may be.

    At most `requests` are answered at once. Besides these, at most `openings` requests may be
    opening an event stream. A body has at most `body` bytes, and all bodies in memory together have
    at most `bodies`. A client has `seconds` to send a body. Within an hour, callers may name at
    most `queues` queues that no task declares.

    The service refuses a large body with 413, a slow one with 408, a new queue name with 422, and
    other requests with 503 and `retry-after`. A request for one stream too many gets an empty
    stream, which tells the client when to connect again.
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
    """ASGI middleware that reads bodies within bounds. Below `prefix` bodies must be JSON.

    Routes marked as `streams_body` read their bodies themselves.
    """

    def __init__(self, app: ASGIApp, bounds: Bounds, prefix: str, flags: RouteFlags) -> None:
        self._app = app
        self._streams_body = flags.streams_body
        self._small_body = flags.small_body
        self._bounds = bounds
        self._prefix = prefix
        # The size of all bodies that are in memory now.
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not _has_body(headers) or self._streams_body.matches(scope["method"], route_path(scope)):
            await self._app(scope, receive, send)
            return
        body, path = bytearray(), route_path(scope)
        max_bytes = self._bounds.body
        if self._small_body.matches(scope["method"], path):
            max_bytes = min(MAX_SMALL_BODY_BYTES, max_bytes)
        try:
            is_json = path.startswith(self._prefix)
            await self._read_checked(headers, receive, body, max_bytes, is_json)
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)
        except _ClientGone:
            pass
        else:
            await self._app(scope, _with_body(bytes(body), receive), send)
        finally:
            self._held_bytes -= len(body)

    async def _read_checked(
        self, headers: Headers, receive: Receive, body: bytearray, max_bytes: int, is_json: bool
    ) -> None:
        _check_headers(headers, max_bytes, is_json)
        await self._read(receive, body, max_bytes)
        if not is_json or not body:
            return
        if len(body) > MAX_BODY_BYTES_ON_LOOP:
            await asyncio.to_thread(expect_json, body)
        else:
            expect_json(body)

    async def _read(self, receive: Receive, body: bytearray, max_bytes: int) -> None:
        try:
            async with asyncio.timeout(self._bounds.seconds):
                while await self._read_part(receive, body, max_bytes):
                    pass
        except TimeoutError:
            detail = f"The body did not arrive within {self._bounds.seconds:g} s."
            raise Problem(408, "too-slow", detail, headers=CLOSE_HEADERS) from None

    async def _read_part(self, receive: Receive, body: bytearray, max_bytes: int) -> bool:
        """Append the next part to the body. Returns whether more follow."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        part: bytes = message.get("body", b"")
        body += part
        self._held_bytes += len(part)
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        if self._held_bytes > self._bounds.bodies:
            raise Problem(
                503,
                "busy",
                "The service is receiving too many bodies at once. Try again in a moment.",
                headers=CLOSE_HEADERS,
            )
        return bool(message.get("more_body", False))


class _ClientGone(Exception):
    """The client has left before its body was complete."""


def route_path(scope: Scope) -> str:
    """Return the path of a request without the prefix under which the service is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _check_headers(headers: Headers, max_bytes: int, is_json: bool) -> None:
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise _unsupported("The body must not be compressed. Send it without content-encoding.")
    if is_json and not _is_json(headers.get("content-type", "")):
        raise _unsupported(f"The body must be {JSON_MEDIA_TYPE} in UTF-8.")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 15 or int(length) > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> Problem:
    detail = (
        f"The body of this request may have at most {max_bytes:,} bytes. Send less in one "
        "request, or a reference to large content."
    )
    return Problem(413, "too-large", detail, headers=CLOSE_HEADERS)


def _is_json(content_type: str) -> bool:
    name, _, rest = content_type.lower().partition(";")
    charset = rest.partition("charset=")[2].strip(' "')
    return name.strip() == JSON_MEDIA_TYPE and charset in ("", "utf-8", "utf8")


def _unsupported(detail: str) -> Problem:
    return Problem(415, "unsupported-media-type", detail, headers=CLOSE_HEADERS)


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns the whole body first, and then the messages that follow."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return first.pop() if first else await receive()

    return receiving


# Methods and paths that need no key or login, beside the routes marked as `public`.
PUBLIC_ROUTES: Final = frozenset(
    {
        ("GET", "/livez"),
        ("GET", "/readyz"),
        # These tell everybody if the database is down, and check the caller for the rest.
        ("GET", "/metrics"),
        ("GET", "/api/v1/health"),
        ("GET", "/static/penstock-live.js"),
        # The page holds no data. It fetches what it shows with a key or a login.
        ("GET", "/docs"),
        ("GET", "/static/docs.js"),
        ("GET", "/static/rapidoc.js"),
        ("POST", "/api/v1/login"),
    }
)
# Orchestrators probe these by IP address, so their Host header is not checked.
ANY_HOST_PATHS: Final = frozenset({"/livez", "/readyz"})
LIVE_PATH: Final = "/api/v1/live"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# A request must not have these twice: a proxy in front might read another one than we do.
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
    """ASGI middleware that checks host and origin, authenticates the caller, and adds headers.

    A header that a route has set itself is kept.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        entry: Entry,
        flags: RouteFlags,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._entry = entry
        self._public = flags.public
        self._idempotent = flags.idempotent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        secured_send = SecuredSend(connection, self._entry, send)
        try:
            response = await self._check(connection)
            if response is None:
                await self._app(scope, receive, secured_send)
                return
        except Problem as problem:
            response = problem_response(problem)
        except PenstockError as error:
            response = problem_response(from_error(error))
        except Exception:
            if scope["type"] == "http" and not secured_send.has_begun:
                detail = "The service failed to handle this request. Its log says why."
                # The server closes the connection after an exception, so the client should know.
                fault = Problem(500, "fault", detail, headers={"connection": "close"})
                await problem_response(fault)(scope, receive, secured_send)
            raise
        await _respond_without_app(response, scope, receive, secured_send)

    async def _check(self, connection: HTTPConnection) -> Response | None:
        """Check a request, and store its caller in the scope.

        Returns the answer to a preflight, which the app must not see, and None for other requests.
        Raises a Problem if the request is refused.
        """
        scope = connection.scope
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        method = scope.get("method", "WEBSOCKET")
        self._check_single(connection)
        if path not in ANY_HOST_PATHS:
            self._check_host(connection)
        _check_text(connection)
        if is_preflight(connection):
            return self._preflight(connection)
        if _has_ticket(connection, method, path):
            return None
        if method not in SAFE_METHODS:
            self._check_origin(connection)
        if (
            method == "POST"
            and IDEMPOTENCY_HEADER in connection.headers
            and not self._idempotent.matches(method, path)
        ):
            raise key_not_supported(path)
        if (method, path) not in PUBLIC_ROUTES and not self._public.matches(method, path):
            scope[CALLER] = await self._authenticator.admit(connection)
        return None

    def _check_single(self, connection: HTTPConnection) -> None:
        for name in (*SINGLE_HEADERS, self._entry.edge_header):
            if name is not None and len(connection.headers.getlist(name)) > 1:
                detail = f"The request has the header {name} more than once. Send it once."
                raise Problem(400, "header-twice", detail)

    def _check_host(self, connection: HTTPConnection) -> None:
        host = connection.headers.get("host", "")
        if not self._entry.knows(host):
            detail = (
                f"The host name {host!r} does not belong to this service. If it should, add it to "
                "`hosts`."
            )
            raise Problem(400, "unknown-host", detail)

    def _check_origin(self, connection: HTTPConnection) -> None:
        """Refuse a request from a page of a foreign origin, even if the request has a cookie."""
        origin = connection.headers.get("origin")
        if origin is not None and not self._is_ours(origin, connection):
            detail = (
                f"Pages from {origin} may not send this request. To allow it, add the origin "
                "to `origins`."
            )
            raise Problem(403, "foreign-origin", detail)

    def _is_ours(self, origin: str, connection: HTTPConnection) -> bool:
        if origin in self._entry.origins:
            return True
        try:
            return urlsplit(origin).netloc == connection.headers.get("host", "")
        except ValueError:  # "http://[x" is not an address.
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
    """Return whether a request is a CORS preflight."""
    return (
        connection.scope.get("method") == "OPTIONS"
        and "access-control-request-method" in connection.headers
    )


class SecuredSend:
    """Adds the security headers to each answer, unless the route has set them itself."""

    def __init__(self, connection: HTTPConnection, entry: Entry, send: Send) -> None:
        self._send = send
        self._headers = _security_headers(connection, entry)
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.has_begun = True
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            message["headers"] = own + [each for each in self._headers if each[0] not in names]
        await self._send(message)


def _security_headers(connection: HTTPConnection, entry: Entry) -> list[tuple[bytes, bytes]]:
    """Return the headers that every answer on this connection gets."""
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
    is_loopback = host_name(connection.headers.get("host", "")) in LOOPBACK
    if not is_loopback and is_https(connection, entry):
        headers.append((b"strict-transport-security", HSTS))
    return headers


def _check_text(connection: HTTPConnection) -> None:
    """Refuse a path or query that is not UTF-8 or contains NUL, which Postgres cannot store."""
    # Starlette would decode invalid UTF-8 to another text, with replacement characters.
    raw_path = connection.scope.get("raw_path") or b""
    for place, raw in (("path", raw_path), ("query", connection.scope["query_string"])):
        if b"%" in raw and not is_utf8(unquote_to_bytes(raw)):
            raise Problem(400, "unreadable", f"The {place} is not UTF-8.")
    if "\0" in connection.scope["path"]:
        raise Problem(400, "unreadable", "The path may not contain NUL (%00).")
    for name, value in connection.query_params.multi_items():
        if "\0" in name or "\0" in value:
            problem = "it contains NUL (%00), which Postgres cannot store"
            raise Problem(422, "does-not-fit", f"{name}: {problem}", fields=[(name, problem)])


def _has_ticket(connection: HTTPConnection, method: str, path: str) -> bool:
    """Return whether a request opens a stream with a ticket. The streams' routes check tickets."""
    is_stream = path == LIVE_PATH or path.startswith(f"{LIVE_PATH}/")
    return (
        is_stream and method in ("GET", "WEBSOCKET") and bool(connection.query_params.get("ticket"))
    )


async def _respond_without_app(
    response: Response, scope: Scope, receive: Receive, send: Any
) -> None:
    """Send a response without calling the app.

    A WebSocket gets the response instead of the handshake if the server supports that, and is
    closed otherwise.
    """
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await response(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": str(response.status_code)})


EVENT_STREAM: Final = "text/event-stream"
# The server sets this key in the scope of a request on a connection above its limit. The value is
# the Problem to answer with.
CONNECTION_REFUSAL: Final = "penstock.connection_refusal"


class RequestCount:
    """Counts the requests below `prefix` whose answer has not begun.

    Probes do not count, so a busy server still answers them. Requests that open a stream are
    counted separately, so that a page with many streams does not keep others from enqueueing.
    """

    def __init__(
        self, max_requests: int, max_openings: int, prefix: str, event_routes: RouteMatcher
    ) -> None:
        """`event_routes` are the routes that answer with server-sent events."""
        self._event_routes = event_routes
        self.max_requests = max_requests
        self.max_openings = max_openings
        self.prefix = prefix
        self.requests = 0
        self.openings = 0

    @property
    def is_full(self) -> bool:
        return self.requests >= self.max_requests

    @property
    def is_full_for_streams(self) -> bool:
        return self.openings >= self.max_openings

    def opens_stream(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a request asks a route for its events, as an `EventSource` does.

        The names of the headers must be in lower case.
        """
        return (
            method == "GET"
            and any(EVENT_STREAM.encode() in value for name, value in headers if name == b"accept")
            and self._event_routes.matches(method, path)
        )

    def refusal(self) -> Problem:
        """Return the problem for a request above the bound."""
        detail = (
            f"The service already handles {self.max_requests:,} requests, the most at once. Try "
            "again in a moment."
        )
        return Problem(503, "busy", detail, headers=dict(SECURITY_HEADERS))


def empty_stream(*, is_for_any_page: bool) -> Response:
    """Return an empty event stream, for a client whose stream cannot be opened now.

    The status is 200, because after any other an `EventSource` never connects again. The stream
    tells the client to reconnect after a random delay, so that clients do not return all at once.
    """
    headers = dict(SECURITY_HEADERS) | {"x-accel-buffering": "no"}
    if is_for_any_page:
        headers["access-control-allow-origin"] = "*"
    body = f"retry: {random.randint(*RECONNECT_MS)}\n\n"
    return Response(body, 200, headers, EVENT_STREAM)


# This status means that the server is full, stops, or has no database: try again later.
UNAVAILABLE = 503


class RequestLimiter:
    """ASGI middleware that counts requests, and refuses those beyond the bound with 503."""

    def __init__(self, app: ASGIApp, *, request_count: RequestCount, entry: Entry) -> None:
        self._app = app
        self._entry = entry
        self._count = request_count
        self._refusal = problem_response(request_count.refusal())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection_refusal = scope.get(CONNECTION_REFUSAL)
        if scope["type"] != "http" or not (
            connection_refusal or route_path(scope).startswith(self._count.prefix)
        ):
            await self._app(scope, receive, send)
        elif is_preflight(HTTPConnection(scope)):
            # A preflight needs no database, and lets a page read that the server is full.
            await self._app(scope, receive, send)
        elif self._count.opens_stream(scope["method"], route_path(scope), scope["headers"]):
            await self._serve_stream(scope, receive, send)
        elif connection_refusal:
            response = problem_response(connection_refusal)
            await response(scope, receive, self._secured(scope, send))
        elif self._count.is_full:
            await self._refusal(scope, receive, self._secured(scope, send))
        else:
            await self._serve(scope, receive, send)

    def _secured(self, scope: Scope, send: Send) -> SecuredSend:
        """Wrap `send`, so that pages of allowed origins can read the limiter's own responses."""
        return SecuredSend(HTTPConnection(scope), self._entry, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._count.requests += 1
        is_begun = False

        async def sending(message: Message) -> None:
            # A request no longer counts once its answer has begun: a stream may last for hours.
            nonlocal is_begun
            if not is_begun:
                is_begun = True
                self._count.requests -= 1
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            if not is_begun:
                self._count.requests -= 1

    async def _serve_stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a stream. If the service is unavailable (503), respond with an empty stream."""
        # A ticket works without the browser's cookies, so any page may read the answer.
        has_ticket = bool(QueryParams(scope["query_string"]).get("ticket"))
        empty, secured_send = empty_stream(is_for_any_page=has_ticket), self._secured(scope, send)
        if self._count.is_full_for_streams or CONNECTION_REFUSAL in scope:
            await empty(scope, receive, secured_send)
            return
        self._count.openings += 1
        is_begun = is_refused = False

        async def sending(message: Message) -> None:
            nonlocal is_begun, is_refused
            if not is_begun:
                is_begun = True
                self._count.openings -= 1
                is_refused = message["status"] == UNAVAILABLE
                if is_refused:
                    await empty(scope, receive, secured_send)
            if not is_refused:
                await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            if not is_begun:
                self._count.openings -= 1
