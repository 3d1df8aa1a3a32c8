"""The server below a service: uvicorn, inside a process that may have more to do."""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import uvicorn
from msgspec.structs import replace

from penstock.service.connection import Sockets, protocol
from penstock.service.frames import BoundedWebSocket
from penstock.service.service import Service

logger = logging.getLogger("penstock.service")

# What requests have to end after a stop was asked for; streams end by themselves.
GRACE: Final = 10
# What the service may take to close after them.
CLOSE_WAIT: Final = 5.0
BACKLOG: Final = 2048
KEEP_ALIVE: Final = 30
# Files that a process has open beside its clients: connections to the database, uploads, logs.
OTHER_FILES: Final = 512
# uvicorn warns of each broken request, with one of a few texts.
WARNING_INTERVAL_S: Final = 60.0
# What a client may say over a WebSocket is short.
MESSAGE: Final = 16 * 1024


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
        grace: int = GRACE,
        sockets: Sockets | None = None,
    ) -> None:
        self._service = service
        self._listening = listening
        self._grace = grace
        config = uvicorn.Config(
            service,
            loop="none",
            http=cast(Any, protocol(with_files_for(sockets or Sockets()), service.crowd)),
            ws=cast(Any, BoundedWebSocket),
            lifespan="off",
            log_config=None,
            access_log=access_log,
            server_header=False,
            root_path=root_path,
            proxy_headers=False,  # the gate knows which proxies to believe
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            ws_max_size=MESSAGE,
            timeout_graceful_shutdown=grace,
        )
        self._uvicorn = _Uvicorn(config)
        # It tells of every beginning and end; what matters of that, commands say themselves.
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        logging.getLogger("uvicorn.error").addFilter(seldom)
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
        return CLOSE_WAIT + (self._grace if signals < 2 else 0.0)

    def last_words(self) -> None:
        """The process is about to end: requests that do not end are in the stacks."""

    def ask_to_stop(self) -> None:
        """For signal handlers: accept nothing more; called again, wait for nobody."""
        self._service.ask_to_stop()
        if self._uvicorn.should_exit:
            self._uvicorn.force_exit = True
        self._uvicorn.should_exit = True


def listening_at(host: str, port: int) -> socket.socket:
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


def with_files_for(sockets: Sockets) -> Sockets:
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


class Seldom(logging.Filter):
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
seldom: Final = Seldom()


def without_query(record: logging.LogRecord) -> bool:
    """Leave the query out of a line of the access log: it may hold a ticket, or a search."""
    if isinstance(record.args, tuple) and len(record.args) == 5:
        client, verb, path, *rest = record.args
        record.args = (client, verb, str(path).partition("?")[0], *rest)
    return True
