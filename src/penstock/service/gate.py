"""The gate around the service: nothing gets in that was not let in, and what goes out is sealed."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import PenstockError
from penstock.service.caller import CALLER, Door
from penstock.service.entry import LOOPBACK, Entry, is_https, name_of
from penstock.service.idempotency import HEADER, refuse_unkept
from penstock.service.problem import Problem, answer, from_error
from penstock.service.utf8 import is_utf8
from penstock.service.ways import Marked

# Verb and path; all else is for those who were let in.
OPEN: Final = frozenset(
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
NAMELESS: Final = frozenset({"/livez", "/readyz"})
LIVE: Final = "/api/v1/live"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
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

HEADERS: Final = {
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
SEAL: Final = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
HSTS: Final = b"max-age=31536000"


class Gate:
    """ASGI middleware: hosts, origins, callers, headers. A route's own headers are left alone."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        door: Door,
        entry: Entry,
        marked: Marked,
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
        sealed = Sealed(connection, self._entry, send)
        try:
            early = await self._pass(connection)
            if early is None:
                await self._app(scope, receive, sealed)
                return
        except Problem as problem:
            early = answer(problem)
        except PenstockError as error:
            early = answer(from_error(error))
        except Exception:
            if scope["type"] == "http" and not sealed.has_begun:
                told = "Something is wrong here; the log of the service says what."
                # The server closes the connection after an exception, so the client should know.
                fault = Problem(500, "fault", told, headers={"connection": "close"})
                await answer(fault)(scope, receive, sealed)
            raise
        await _refuse(early, scope, receive, sealed)

    async def _pass(self, connection: HTTPConnection) -> Response | None:
        """Let a connection through, or say what it is answered instead."""
        scope = connection.scope
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        verb = scope.get("method", "WEBSOCKET")
        self._check_single(connection)
        if path not in NAMELESS:
            self._check_host(connection)
        _check_text(connection)
        if is_preflight(connection):
            return self._preflight(connection)
        if _has_ticket(connection, verb, path):
            return None
        if verb not in SAFE:
            self._check_origin(connection)
        if verb == "POST" and HEADER in connection.headers and not self._keyed.lead(verb, path):
            raise refuse_unkept(path)
        if (verb, path) not in OPEN and not self._unguarded.lead(verb, path):
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


class Sealed:
    """Sends answers on with the headers that each has, unless a route has set them itself."""

    def __init__(self, connection: HTTPConnection, entry: Entry, send: Send) -> None:
        self._send = send
        self._headers = _sealing(connection, entry)
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.has_begun = True
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            message["headers"] = given + [each for each in self._headers if each[0] not in names]
        await self._send(message)


def _sealing(connection: HTTPConnection, entry: Entry) -> list[tuple[bytes, bytes]]:
    """The headers of every answer to this connection."""
    headers = list(SEAL)
    origin = connection.headers.get("origin")
    if origin is not None and origin in entry.origins:
        headers.append((b"access-control-allow-origin", origin.encode()))
        headers.append((b"access-control-expose-headers", b"location, retry-after"))
    else:
        headers.append((b"cross-origin-resource-policy", b"same-origin"))
    if entry.origins:
        headers.append((b"vary", b"origin"))
    # With HSTS for localhost, a browser would refuse plain HTTP for every other service there.
    is_here = name_of(connection.headers.get("host", "")) in LOOPBACK
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
    is_stream = path == LIVE or path.startswith(f"{LIVE}/")
    return (
        is_stream and verb in ("GET", "WEBSOCKET") and bool(connection.query_params.get("ticket"))
    )


async def _refuse(early: Response, scope: Scope, receive: Receive, send: Any) -> None:
    """Answer without the app. A WebSocket is refused before it is one, with the same words."""
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await early(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": str(early.status_code)})
