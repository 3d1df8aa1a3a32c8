"""The server below a service: uvicorn, with bounds on what each connection may cost."""

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
from penstock.service.middleware import NO_ROOM, RequestCount
from penstock.service.problems import Problem, problem_response

CLOSE_HEADERS: Final = {"connection": "close"}
PROBE_PATHS: Final = frozenset({b"/livez", b"/readyz"})
# A probe says at once what it wants.
PROBE_TIMEOUT_S: Final = 2.0


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections there may be, and how large and slow a client.

    `head` is the size of a request's line and headers in bytes, `head_seconds` the time in which
    they have to come; for `stalled_seconds` an answer may lie of which the client takes nothing.
    While all connections are taken, `probes` more may each ask for `/livez` or `/readyz` once; the
    oldest of those that have not asked yet gives way to the next.
    """

    connections: int = 4096
    probes: int = 32
    head: int = 32 * 1024
    head_seconds: float = 10.0
    stalled_seconds: float = 30.0


class _Refused:
    """In the place of a request that is not begun: its answer is complete."""

    response_complete = True
    disconnected = False
    message_event = asyncio.Event()


_REFUSED: Any = _Refused()


class HttpConnection(HttpToolsProtocol):
    """A client that takes too much of something is cut off; the others do not notice."""

    def __init__(
        self,
        sockets: ConnectionLimits,
        crowd: RequestCount,
        refusal: bytes,
        probing: dict[HttpConnection, None],
        **given: Any,
    ) -> None:
        """`probing` are the connections of a server that may only ask for probes, oldest first."""
        super().__init__(**given)
        self._probing = probing
        self._sockets = sockets
        self._crowd = crowd
        self._refusal = refusal
        self._read = self._parsed = 0  # of the head, in bytes
        self._is_head = True
        self._is_whole = True
        self._expecting: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) - len(self._probing) > self._sockets.connections:
            self._probing[self] = None
            if len(self._probing) > self._sockets.probes:
                silent = (each for each in self._probing if each._has_not_asked())
                oldest = next(silent, self)
                del self._probing[oldest]
                oldest.transport.abort()
        if not transport.is_closing():
            self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._probing.pop(self, None)
        self._expect_nothing()
        self._take_on()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    # What comes

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_head and not self.transport.is_closing():
            self._read += len(data)
            if self._read > self._sockets.head:
                self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._read = self._parsed = 0
        self._is_head, self._is_whole = True, False
        self._expect_more()

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name, value)
        if self._is_head:  # What comes behind the body must not change what has begun.
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_head = False
        self._expect_nothing()
        if self in self._probing:
            self._answer_without_room()
        elif self._is_one_too_many():
            self._refuse()
        else:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_whole = True
        self._expect_nothing()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_whole:
            self._expect_more()

    def send_400_response(self, msg: str) -> None:
        """Also what is too large ends here: an error of a callback is one of the parser."""
        found = Problem(400, "bad-request", msg, headers=CLOSE_HEADERS)
        if max(self._read, self._parsed) > self._sockets.head:
            told = f"A request's line and headers have at most {self._sockets.head:,} bytes."
            found = Problem(431, "head-too-large", told, headers=CLOSE_HEADERS)
        self.transport.write(_raw_response(found))
        self.transport.close()

    def _has_not_asked(self) -> bool:
        cycle: Any = self.cycle
        return cycle is None

    def _answer_without_room(self) -> None:
        """Answer a probe, and tell all else to come again."""
        told = f"All of {self._sockets.connections:,} connections are taken: come again."
        no_room = Problem(503, "busy", told, headers=CLOSE_HEADERS)
        if self.parser.should_upgrade():
            self.cycle = _REFUSED
            self.transport.write(_raw_response(no_room))
            self.transport.close()
            return
        if self.url.partition(b"?")[0] not in PROBE_PATHS:
            # The limiter of requests knows what an EventSource and pages of other origins are told.
            cast(dict[str, Any], self.scope)[NO_ROOM] = no_room
        super().on_headers_complete()
        self.cycle.keep_alive = False

    def _is_one_too_many(self) -> bool:
        """The limiter of requests would find out too; here, turning many away costs less."""
        if not self._crowd.is_full:
            return False
        # A page of another origin can read an answer only with the headers that the limiter adds.
        if any(name == b"origin" for name, _ in self.headers):
            return False
        method, path = self.parser.get_method().decode("latin-1"), self.url.partition(b"?")[0]
        if self._crowd.opens_stream(method, unquote(path.decode("latin-1")), self.headers):
            return False
        is_plain = self.parser.should_keep_alive() and not self.parser.should_upgrade()
        before: Any = self.cycle
        is_idle = before is None or before.response_complete
        return is_plain and is_idle and self.url.startswith(self._crowd.prefix.encode())

    def _refuse(self) -> None:
        self.cycle = _REFUSED
        self.transport.write(self._refusal)
        self.on_response_complete()

    def _count(self, *parts: bytes) -> None:
        self._parsed += sum(map(len, parts))
        if self._parsed > self._sockets.head:
            raise ValueError("The head is too large.")

    def _expect_more(self) -> None:
        self._expect_nothing()
        seconds = self._sockets.head_seconds
        if self in self._probing:
            seconds = min(seconds, PROBE_TIMEOUT_S)
        self._expecting = self.loop.call_later(seconds, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._expecting is not None:
            self._expecting.cancel()
            self._expecting = None

    # What goes

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self._sockets.stalled_seconds
        self._stalled = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._take_on()
        super().resume_writing()

    def _take_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def connection_factory(
    sockets: ConnectionLimits, crowd: RequestCount
) -> Callable[..., HttpConnection]:
    """What uvicorn makes connections with."""
    return partial(HttpConnection, sockets, crowd, _raw_response(crowd.refusal()), {})


def _raw_response(problem: Problem) -> bytes:
    """A whole answer as it goes over the wire."""
    response = problem_response(problem)
    lines = [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
    return STATUS_LINE[problem.status] + b"".join(lines) + b"\r\n" + bytes(response.body)


logger = logging.getLogger("penstock.service")

# What requests have to end after a stop was asked for; streams end by themselves.
STOP_GRACE_S: Final = 10
# What the service may take to close after them.
CLOSE_TIMEOUT_S: Final = 5.0
BACKLOG: Final = 2048
KEEP_ALIVE_S: Final = 30
# Files that a process has open beside its clients: connections to the database, uploads, logs.
OTHER_FILES: Final = 512
# uvicorn warns of each broken request, with one of a few texts.
WARNING_INTERVAL_S: Final = 60.0
# What a client may say over a WebSocket is short.
MAX_MESSAGE_BYTES: Final = 16 * 1024


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the process, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Server:
    """Serves until it is asked to stop; a second call hurries.

    async with service:
        await Server(service, listening_at("127.0.0.1", 8420)).run()
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
                    with_file_limit_for(sockets or ConnectionLimits()), service.crowd
                ),
            ),
            ws=cast(Any, BoundedWebSocket),
            lifespan="off",
            log_config=None,
            access_log=access_log,
            server_header=False,
            root_path=root_path,
            proxy_headers=False,  # the gate knows which proxies to believe
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            ws_max_size=MAX_MESSAGE_BYTES,
            timeout_graceful_shutdown=grace,
        )
        self._uvicorn = _Uvicorn(config)
        # It tells of every beginning and end; what matters of that, commands say themselves.
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        logging.getLogger("uvicorn.error").addFilter(warning_rate_limit)
        logging.getLogger("uvicorn.access").addFilter(without_query)

    async def run(self) -> None:
        """Accept requests until `ask_to_stop`, then let those under way end."""
        try:
            await self._uvicorn.serve([self._listening])
        finally:
            self._listening.close()

    async def listens(self) -> None:
        """Wait until connections are accepted."""
        await self._uvicorn.listens.wait()

    def stop_limit(self, signals: int) -> float:
        """How many seconds a stop may take after so many signals."""
        return CLOSE_TIMEOUT_S + (self._grace if signals < 2 else 0.0)

    def last_words(self) -> None:
        """The process is about to end: requests that do not end are in the stacks."""

    def ask_to_stop(self) -> None:
        """For signal handlers: accept nothing more; called again, wait for nobody."""
        self._service.ask_to_stop()
        if self._uvicorn.should_exit:
            self._uvicorn.force_exit = True
        self._uvicorn.should_exit = True


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket bound to an address; connections are refused until a server takes it.

    Raises OSError if the port is taken, or the address none of this machine's.
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


def with_file_limit_for(sockets: ConnectionLimits) -> ConnectionLimits:
    """Let the process have a file for each connection, or take fewer connections.

    A process that has no files left accepts nobody, probes neither. Many systems begin with 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = sockets.connections + sockets.probes + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return sockets
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return sockets
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    fewer = min(sockets.connections, max(hard - sockets.probes - OTHER_FILES, hard // 2))
    logger.warning(
        "This process may open %d files, so the server takes %d connections instead of %d: raise "
        "the limit (`ulimit -n`, or LimitNOFILE= of a unit).", hard, fewer, sockets.connections,
    )  # fmt: skip
    return replace(sockets, connections=fewer)


class WarningRateLimit(logging.Filter):
    """Lets each warning through once a minute: clients cause them, such as by broken requests."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        age = record.created - self._logged_at.get(record.msg, -math.inf)
        # Below 0 the clock was set back meanwhile.
        if 0 <= age < WARNING_INTERVAL_S:
            return False
        self._logged_at[record.msg] = record.created
        return True


# One for all servers of the process, as the logger is.
warning_rate_limit: Final = WarningRateLimit()


def without_query(record: logging.LogRecord) -> bool:
    """Leave the query out of a line of the access log: it may hold a ticket, or a search."""
    if isinstance(record.args, tuple) and len(record.args) == 5:
        client, verb, path, *rest = record.args
        record.args = (client, verb, str(path).partition("?")[0], *rest)
    return True
