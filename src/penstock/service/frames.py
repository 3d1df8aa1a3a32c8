"""Read from a WebSocket at a bounded rate.

uvicorn parses all data that has arrived at once. With a flood of tiny frames, a client could
block the event loop for all others. Pings suffice for that, and no route ever sees them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from penstock.service.problems import is_utf8

# This much is parsed at once: some 170 of the smallest frames, in about 3 ms.
MAX_SLICE_BYTES: Final = 1024
# A client may send this much at once, and then this much a second; the rest waits unread.
BURST_BYTES: Final = 64 * 1024
BYTES_PER_S: Final = 16 * 1024
# The fragments of an incomplete message are kept in memory. Empty ones add nothing to its size, so
# they have to be counted.
MAX_FRAGMENTS: Final = 64
# How often to check whether the route has taken the messages that have arrived.
UNTAKEN_PAUSE_S: Final = 0.02


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """Parses the data of a client in slices, so that others are served in between."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unparsed = bytearray()
        self._next_slice: asyncio.TimerHandle | None = None
        self._next_slice_at = 0.0

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:  # The size of the HTTP request is bounded already.
            super().data_received(data)
            return
        self._unparsed += data
        if self._next_slice is None:
            self._parse_slice()
        if self._unparsed:
            self.transport.pause_reading()

    def handle_cont(self, event: Frame) -> None:
        if self.transport.is_closing():
            return
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
            return
        self.frames = []
        self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"at most {MAX_FRAGMENTS} fragments a message")
        self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        # uvicorn would refuse the message too, but would log a traceback each time.
        is_text = self.curr_msg_data_type == "text" and not self.close_sent
        if is_text and not is_utf8(b"".join(self.frames)):
            self.frames = []
            self.conn.fail(CloseCode.INVALID_DATA, "the text is not UTF-8")
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unparsed.clear()
        if self._next_slice is not None:
            self._next_slice.cancel()
        super().connection_lost(exc)

    def _parse_slice(self) -> None:
        self._next_slice = None
        if self.transport.is_closing():
            self._unparsed.clear()
            return
        now = self.loop.time()
        if (pause := self._next_slice_at - now) <= 0 and self.read_paused:
            pause = UNTAKEN_PAUSE_S
        if pause > 0:
            self._next_slice = self.loop.call_later(pause, self._parse_slice)
            return
        data = bytes(self._unparsed[:MAX_SLICE_BYTES])
        del self._unparsed[:MAX_SLICE_BYTES]
        super().data_received(data)
        unused_burst = now - BURST_BYTES / BYTES_PER_S
        self._next_slice_at = max(self._next_slice_at, unused_burst) + len(data) / BYTES_PER_S
        self._continue()

    def _continue(self) -> None:
        """Let other tasks run, then parse the next slice. If none is left, resume reading."""
        if self._unparsed:
            self._next_slice = self.loop.call_later(0, self._parse_slice)
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()
