"""Run a service with uvicorn, and limit the resources that each connection can use."""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast
from urllib.parse import unquote

import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from penstock.service.app import Service
from penstock.service.frames import BoundedWebSocket
from penstock.service.middleware import CONNECTION_REFUSAL, RequestCount
from penstock.service.problems import Problem, problem_response

CLOSE_HEADERS: Final = {"connection": "close"}
PROBE_PATHS: Final = frozenset({b"/livez", b"/readyz"})
# A probe sends its request at once.
PROBE_TIMEOUT_S: Final = 2.0


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections a server accepts, and how large and slow their requests may be.

    The request line and headers have at most `head` bytes and must arrive within `head_seconds`.
    A client that reads nothing of its answer for `stalled_seconds` is disconnected.

    While all `connections` are in use, `probes` more are accepted, each for one request to
    `/livez` or `/readyz`. If these are in use too, the server closes the oldest of them that has
    not sent its request.
    """

    connections: int = 4096
    probes: int = 32
    head: int = 32 * 1024
    head_seconds: float = 10.0
    stalled_seconds: float = 30.0


class _Refused:
    """Replaces uvicorn's request cycle after a refusal that was sent without calling the app."""

    response_complete = True
    disconnected = False
    message_event = asyncio.Event()


_REFUSED: Any = _Refused()


class HttpConnection(HttpToolsProtocol):
    """One client's connection. A client that exceeds a limit is cut off without harm to others."""

    def __init__(
        self,
        limits: ConnectionLimits,
        request_count: RequestCount,
        refusal: bytes,
        probing: dict[HttpConnection, None],
        **uvicorn_settings: Any,
    ) -> None:
        """`probing` holds the server's connections that may only send probes, oldest first."""
        super().__init__(**uvicorn_settings)
        self._probing = probing
        self._limits = limits
        self._request_count = request_count
        self._refusal = refusal
        self._head_bytes_read = self._head_bytes_parsed = 0
        self._is_in_head = True
        self._is_request_complete = True
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) - len(self._probing) > self._limits.connections:
            self._probing[self] = None
            if len(self._probing) > self._limits.probes:
                silent = (each for each in self._probing if each._has_no_request())
                oldest = next(silent, self)
                del self._probing[oldest]
                oldest.transport.abort()
        if not transport.is_closing():
            self._start_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._probing.pop(self, None)
        self._stop_read_timer()
        self._stop_write_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    # Requests

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head and not self.transport.is_closing():
            self._head_bytes_read += len(data)
            if self._head_bytes_read > self._limits.head:
                self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes_read = self._head_bytes_parsed = 0
        self._is_in_head, self._is_request_complete = True, False
        self._start_read_timer()

    def on_url(self, url: bytes) -> None:
        self._count_head_bytes(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head_bytes(name, value)
        if self._is_in_head:  # Trailers after the body must not change a request that has begun.
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_read_timer()
        if self in self._probing:
            self._answer_probe_connection()
        elif self._may_refuse_here():
            self._refuse()
        else:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_request_complete = True
        self._stop_read_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_request_complete:
            self._start_read_timer()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, or whose head is too large.

        The parser reports an error that a callback raises as an error of its own, so a head that is
        too large ends up here as well.
        """
        problem = Problem(400, "bad-request", msg, headers=CLOSE_HEADERS)
        if max(self._head_bytes_read, self._head_bytes_parsed) > self._limits.head:
            detail = (
                f"The line and headers of a request may have at most {self._limits.head:,} bytes."
            )
            problem = Problem(431, "head-too-large", detail, headers=CLOSE_HEADERS)
        self.transport.write(_raw_response(problem))
        self.transport.close()

    def _has_no_request(self) -> bool:
        cycle: Any = self.cycle
        return cycle is None

    def _answer_probe_connection(self) -> None:
        """Answer a probe on a connection above the limit, and refuse any other request there."""
        detail = f"All {self._limits.connections:,} connections are in use: try again in a moment."
        problem = Problem(503, "busy", detail, headers=CLOSE_HEADERS)
        if self.parser.should_upgrade():
            self.cycle = _REFUSED
            self.transport.write(_raw_response(problem))
            self.transport.close()
            return
        if self.url.partition(b"?")[0] not in PROBE_PATHS:
            # RequestLimiter refuses it, in a form that an EventSource and other origins can read.
            cast(dict[str, Any], self.scope)[CONNECTION_REFUSAL] = problem
        super().on_headers_complete()
        self.cycle.keep_alive = False

    def _may_refuse_here(self) -> bool:
        """Return whether to refuse a request before the app sees it.

        RequestLimiter would refuse the request too, but refusing it in the connection costs less.
        """
        if not self._request_count.is_full:
            return False
        # Only with headers that RequestLimiter adds can a page of another origin read the answer.
        if any(name == b"origin" for name, _ in self.headers):
            return False
        method, path = self.parser.get_method().decode("latin-1"), self.url.partition(b"?")[0]
        if self._request_count.opens_stream(method, unquote(path.decode("latin-1")), self.headers):
            return False
        is_plain = self.parser.should_keep_alive() and not self.parser.should_upgrade()
        previous: Any = self.cycle
        is_idle = previous is None or previous.response_complete
        return is_plain and is_idle and self.url.startswith(self._request_count.prefix.encode())

    def _refuse(self) -> None:
        self.cycle = _REFUSED
        self.transport.write(self._refusal)
        self.on_response_complete()

    def _count_head_bytes(self, *parts: bytes) -> None:
        self._head_bytes_parsed += sum(map(len, parts))
        if self._head_bytes_parsed > self._limits.head:
            raise ValueError("The head is too large.")

    def _start_read_timer(self) -> None:
        self._stop_read_timer()
        seconds = self._limits.head_seconds
        if self in self._probing:
            seconds = min(seconds, PROBE_TIMEOUT_S)
        self._read_timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    # Answers

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self._limits.stalled_seconds
        self._write_timer = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


def connection_factory(
    limits: ConnectionLimits, request_count: RequestCount
) -> Callable[..., HttpConnection]:
    """Return the protocol factory for uvicorn. All its connections share the limits."""
    refusal = _raw_response(request_count.refusal())
    return partial(HttpConnection, limits, request_count, refusal, {})


def _raw_response(problem: Problem) -> bytes:
    """Encode a whole HTTP response for the wire."""
    response = problem_response(problem)
    lines = [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
    return STATUS_LINE[problem.status] + b"".join(lines) + b"\r\n" + bytes(response.body)


logger = logging.getLogger("penstock.service")

# Requests have this long to end once the server is asked to stop. Streams end by themselves.
STOP_GRACE_S: Final = 10
# The service may then take this long to close.
CLOSE_TIMEOUT_S: Final = 5.0
BACKLOG: Final = 2048
KEEP_ALIVE_S: Final = 30
# The file descriptors for other things than clients: database connections, uploads, logs.
OTHER_FILES: Final = 512
# uvicorn logs a warning, with one of a few texts, for each broken request.
WARNING_INTERVAL_S: Final = 60.0
# The messages of a client over a WebSocket are short.
MAX_MESSAGE_BYTES: Final = 16 * 1024


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that leaves signals to the process, and sets `listens` once it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class HttpServer:
    """Serves a service until it is asked to stop.

    async with service:
        await HttpServer(service, bind_socket("127.0.0.1", 8420)).run()
    """

    def __init__(
        self,
        service: Service,
        listening: socket.socket,
        *,
        root_path: str = "",
        access_log: bool = False,
        grace: int = STOP_GRACE_S,
        sockets: ConnectionLimits | None = None,
    ) -> None:
        self._service = service
        self._listening = listening
        self._grace = grace
        config = uvicorn.Config(
            service,
            loop="none",
            http=cast(
                Any,
                connection_factory(
                    with_file_limit_for(sockets or ConnectionLimits()), service.request_count
                ),
            ),
            ws=cast(Any, BoundedWebSocket),
            lifespan="off",
            log_config=None,
            access_log=access_log,
            server_header=False,
            root_path=root_path,
            proxy_headers=False,  # `client_address` knows which proxies to trust
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            ws_max_size=MAX_MESSAGE_BYTES,
            timeout_graceful_shutdown=grace,
        )
        self._uvicorn = _Uvicorn(config)
        # uvicorn logs each start and stop. The commands print what matters of that themselves.
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        logging.getLogger("uvicorn.error").addFilter(warning_rate_limit)
        logging.getLogger("uvicorn.access").addFilter(without_query)

    async def run(self) -> None:
        """Accept requests until `ask_to_stop` is called, then wait for the running requests."""
        try:
            await self._uvicorn.serve([self._listening])
        finally:
            self._listening.close()

    async def listens(self) -> None:
        """Wait until the server accepts connections."""
        await self._uvicorn.listens.wait()

    def stop_limit(self, signals: int) -> float:
        """Return how many seconds the server may take to stop after this many signals."""
        return CLOSE_TIMEOUT_S + (self._grace if signals < 2 else 0.0)

    def last_words(self) -> None:
        """Do nothing. The process logs its stacks, which show the requests that do not end."""

    def ask_to_stop(self) -> None:
        """Accept no more requests. A second call stops without waiting for the running requests.

        Signal handlers call this.
        """
        self._service.ask_to_stop()
        if self._uvicorn.should_exit:
            self._uvicorn.force_exit = True
        self._uvicorn.should_exit = True


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a socket to an address. Clients are refused until a server listens on it.

    Raises OSError if the port is taken, or the address is not one of this machine.
    """
    family, kind, number, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, number)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def with_file_limit_for(limits: ConnectionLimits) -> ConnectionLimits:
    """Raise the process's limit of open files for all connections. Returns the limits to use.

    If the system allows fewer files, the returned limits allow fewer connections. A process
    without free file descriptors accepts no client, not even a probe. Many systems start with a
    limit of 1,024 files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.connections + limits.probes + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    if hard == resource.RLIM_INFINITY or hard >= needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    fewer = min(limits.connections, max(hard - limits.probes - OTHER_FILES, hard // 2))
    logger.warning(
        "This process may open %d files, so the server takes %d connections instead of %d. To "
        "allow more, raise the limit of open files (`ulimit -n`, or LimitNOFILE= of a systemd "
        "unit).", hard, fewer, limits.connections,
    )  # fmt: skip
    return replace(limits, connections=fewer)


class WarningRateLimit(logging.Filter):
    """Lets each warning through once a minute, since clients can cause any number of them."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        age = record.created - self._logged_at.get(record.msg, -math.inf)
        # An age below 0 means that the clock was set back.
        if 0 <= age < WARNING_INTERVAL_S:
            return False
        self._logged_at[record.msg] = record.created
        return True


# All servers of the process share it, as they share the logger.
warning_rate_limit: Final = WarningRateLimit()


def without_query(record: logging.LogRecord) -> bool:
    """Remove the query from a line of the access log. It may contain a ticket or a search text."""
    if isinstance(record.args, tuple) and len(record.args) == 5:
        client, method, path, *rest = record.args
        record.args = (client, method, str(path).partition("?")[0], *rest)
    return True
