"""A client's connection, with bounds on what it may cost.

uvicorn itself waits for ever for the end of a request's head, keeps a head of any size, and holds
an answer for as long as nobody takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast
from urllib.parse import unquote

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from penstock.service.crowd import NO_ROOM, Crowd
from penstock.service.problem import Problem, answer

CLOSE: Final = {"connection": "close"}
PROBES: Final = frozenset({b"/livez", b"/readyz"})
# A probe says at once what it wants.
PROBE_SECONDS: Final = 2.0


class Sockets(Struct, frozen=True, kw_only=True):
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


class Connection(HttpToolsProtocol):
    """A client that takes too much of something is cut off; the others do not notice."""

    def __init__(
        self,
        sockets: Sockets,
        crowd: Crowd,
        refusal: bytes,
        probing: dict[Connection, None],
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
        found = Problem(400, "bad-request", msg, headers=CLOSE)
        if max(self._read, self._parsed) > self._sockets.head:
            told = f"A request's line and headers have at most {self._sockets.head:,} bytes."
            found = Problem(431, "head-too-large", told, headers=CLOSE)
        self.transport.write(_written(found))
        self.transport.close()

    def _has_not_asked(self) -> bool:
        cycle: Any = self.cycle
        return cycle is None

    def _answer_without_room(self) -> None:
        """Answer a probe, and tell all else to come again."""
        told = f"All of {self._sockets.connections:,} connections are taken: come again."
        no_room = Problem(503, "busy", told, headers=CLOSE)
        if self.parser.should_upgrade():
            self.cycle = _REFUSED
            self.transport.write(_written(no_room))
            self.transport.close()
            return
        if self.url.partition(b"?")[0] not in PROBES:
            # The turnstile knows what an EventSource has to be told, and pages of other origins.
            cast(dict[str, Any], self.scope)[NO_ROOM] = no_room
        super().on_headers_complete()
        self.cycle.keep_alive = False

    def _is_one_too_many(self) -> bool:
        """The turnstile would find out too, but a crowd is turned away cheaply only at the door."""
        if not self._crowd.is_full:
            return False
        # A page of another origin can read an answer only with the headers that the turnstile adds.
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
            seconds = min(seconds, PROBE_SECONDS)
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


def protocol(sockets: Sockets, crowd: Crowd) -> Callable[..., Connection]:
    """What uvicorn makes connections with."""
    return partial(Connection, sockets, crowd, _written(crowd.refusal()), {})


def _written(problem: Problem) -> bytes:
    """A whole answer as it goes over the wire."""
    response = answer(problem)
    lines = [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
    return STATUS_LINE[problem.status] + b"".join(lines) + b"\r\n" + bytes(response.body)
