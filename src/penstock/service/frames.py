"""A WebSocket's connection, read at a bounded rate.

uvicorn takes apart all that has come in one go. A client that floods it with the smallest frames,
such as pings, which no route ever sees, would have the event loop to itself.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from penstock.service.problems import is_utf8

# So much is taken apart at once: some 170 of the smallest frames, in about 3 ms.
MAX_SLICE_BYTES: Final = 1024
# A client may send this much at once, and then this much a second; the rest waits unread.
BURST_BYTES: Final = 64 * 1024
BYTES_PER_S: Final = 16 * 1024
# The fragments of an incomplete message are kept in memory. Empty ones add nothing to its size, so
# they have to be counted.
MAX_FRAGMENTS: Final = 64
# While the route has not taken the messages that have come.
UNTAKEN_PAUSE_S: Final = 0.02


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """Takes what comes slice by slice, so that everybody else is served in between."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting = bytearray()
        self._next_slice: asyncio.TimerHandle | None = None
        self._next_slice_at = 0.0

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:  # That is the request, whose size is bounded already.
            super().data_received(data)
            return
        self._waiting += data
        if self._next_slice is None:
            self._take_slice()
        if self._waiting:
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
        # uvicorn would refuse it too, but logs each with a traceback.
        is_text = self.curr_msg_data_type == "text" and not self.close_sent
        if is_text and not is_utf8(b"".join(self.frames)):
            self.frames = []
            self.conn.fail(CloseCode.INVALID_DATA, "the text is not UTF-8")
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.clear()
        if self._next_slice is not None:
            self._next_slice.cancel()
        super().connection_lost(exc)

    def _take_slice(self) -> None:
        self._next_slice = None
        if self.transport.is_closing():
            self._waiting.clear()
            return
        now = self.loop.time()
        if (pause := self._next_slice_at - now) <= 0 and self.read_paused:
            pause = UNTAKEN_PAUSE_S
        if pause > 0:
            self._next_slice = self.loop.call_later(pause, self._take_slice)
            return
        data = bytes(self._waiting[:MAX_SLICE_BYTES])
        del self._waiting[:MAX_SLICE_BYTES]
        super().data_received(data)
        unused_burst = now - BURST_BYTES / BYTES_PER_S
        self._next_slice_at = max(self._next_slice_at, unused_burst) + len(data) / BYTES_PER_S
        self._go_on()

    def _go_on(self) -> None:
        """Take the next slice after everybody else, or read on."""
        if self._waiting:
            self._next_slice = self.loop.call_later(0, self._take_slice)
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()
