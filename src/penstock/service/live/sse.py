"""Server-sent events: the states of one subject as a response that goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.service.live.listener import Ended, Listener
from penstock.service.live.told import Told

# A proxy may cut what is silent for longer.
ALIVE: Final = 15.0
# A client that takes nothing for so long is given up.
TAKING: Final = 10.0
# Then a client connects again, and who may no longer listen is let in no more.
LONGEST: Final = 15 * 60.0
# Clients of a server that stops come back to others, not all in one moment.
COMING_BACK: Final = (500, 3000)

HEADERS: Final = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}
_COMMENT: Final = b": alive\n\n"


class EventStream(Response):
    """One listener's news, until a state is final, the client goes or the server stops."""

    media_type = "text/event-stream"

    def __init__(
        self, listener: Listener, first: Told | None, headers: Mapping[str, str] | None = None
    ) -> None:
        """`first` is told at once; None if the client has seen the present state."""
        super().__init__(headers={**HEADERS, **(headers or {})})
        del self.headers["content-length"]
        self._listener = listener
        self._first = first
        self._at_end: Callable[[], None] = lambda: None

    def then(self, done: Callable[[], None]) -> None:
        """What is called when the stream has ended."""
        self._at_end = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(self._leave(receive), name="penstock live client")
        ending = asyncio.get_running_loop().call_later(LONGEST, self._listener.end, "over")
        try:
            await self._tell(send)
        except (TimeoutError, OSError):
            pass  # The server closes what was not finished.
        finally:
            ending.cancel()
            leaving.cancel()
            self._at_end()
            await asyncio.gather(leaving, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        async with asyncio.timeout(TAKING):
            await send(start)
        retry = f"retry: {random.randint(*COMING_BACK)}\n\n".encode()
        await _send(send, retry if self._first is None else retry + frame(self._first))
        try:
            told = self._first
            while told is None or not told.is_final:
                told = await self._listener.next(ALIVE)
                await _send(send, _COMMENT if told is None else frame(told))
        except Ended as ended:
            if ended.why == "left":
                return
        await _send(send, b"", more=False)

    async def _leave(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.end("left")


def frame(told: Told) -> bytes:
    """One event; JSON has no line breaks in it."""
    version = b"" if told.present is None else b"id: " + told.present.version.encode() + b"\n"
    return version + b"data: " + told.body + b"\n\n"


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(TAKING):
        await send({"type": "http.response.body", "body": body, "more_body": more})
