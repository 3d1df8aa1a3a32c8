"""Server-sent events: a subject's states as a response that goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.service.live.hub import Ended, Hub, Listener, Subject, Update
from penstock.service.problems import Problem

# A proxy may cut what is silent for longer.
KEEPALIVE_S: Final = 15.0
# A client that takes nothing for so long is given up.
SEND_TIMEOUT_S: Final = 10.0
# Then a client connects again, and who may no longer listen is let in no more.
MAX_CONNECTION_S: Final = 15 * 60.0
# Clients of a server that stops come back to others, not all in one moment.
RECONNECT_MS: Final = (500, 3000)

STREAM_HEADERS: Final = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}
_KEEPALIVE: Final = b": alive\n\n"


class EventStream(Response):
    """One listener's news, until a state is final, the client goes or the server stops."""

    media_type = "text/event-stream"

    def __init__(
        self, listener: Listener, first: Update | None, headers: Mapping[str, str] | None = None
    ) -> None:
        """`first` is told at once; None if the client has seen the present state."""
        super().__init__(headers={**STREAM_HEADERS, **(headers or {})})
        del self.headers["content-length"]
        self._listener = listener
        self._first = first
        self._at_end: Callable[[], None] = lambda: None

    def then(self, done: Callable[[], None]) -> None:
        """What is called when the stream has ended."""
        self._at_end = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(self._leave(receive), name="penstock live client")
        ending = asyncio.get_running_loop().call_later(MAX_CONNECTION_S, self._listener.end, "over")
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
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await send(start)
        retry = f"retry: {random.randint(*RECONNECT_MS)}\n\n".encode()
        await _send(send, retry if self._first is None else retry + frame(self._first))
        try:
            told = self._first
            while told is None or not told.is_final:
                told = await self._listener.next(KEEPALIVE_S)
                await _send(send, _KEEPALIVE if told is None else frame(told))
        except Ended as ended:
            if ended.why == "left":
                return
        await _send(send, b"", more=False)

    async def _leave(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.end("left")


def frame(told: Update) -> bytes:
    """One event; JSON has no line breaks in it."""
    version = b"" if told.present is None else b"id: " + told.present.version.encode() + b"\n"
    return version + b"data: " + told.body + b"\n\n"


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await send({"type": "http.response.body", "body": body, "more_body": more})


# A first look that takes longer is a database that does not answer.
FIRST_STATE_TIMEOUT_S: Final = 5.0


async def open_stream(
    hub: Hub, tenant: str | None, subject: Subject, seen: str, headers: dict[str, str]
) -> Response:
    """What is told of a subject, as far as a tenant may see it; a Problem if it is not there.

    Who has `seen` the final state is answered with 204.
    """
    listener = hub.enter()
    try:
        hub.join(listener, tenant, subject)
        first = existing(await _first_update(listener))
    except BaseException:
        _leave(hub, listener, tenant, subject)
        raise
    is_seen = first.is_same(seen)
    if is_seen and first.is_final:
        _leave(hub, listener, tenant, subject)
        return Response(status_code=204, headers=headers)
    events = EventStream(listener, None if is_seen else first, headers)
    events.then(lambda: _leave(hub, listener, tenant, subject))
    return events


async def _first_update(listener: Listener) -> Update:
    try:
        told = await listener.first(FIRST_STATE_TIMEOUT_S)
    except Ended:
        told = None
    if told is None:
        raise Problem(503, "database-lost", "The database does not answer, or this server stops.")
    return told


def existing(told: Update) -> Update:
    """What is told of a subject that is there; else a Problem."""
    if told.present is None:
        raise Problem(404, "not-found", f"There is no {told.subject.kind} {told.subject.id}.")
    return told


def _leave(hub: Hub, listener: Listener, tenant: str | None, subject: Subject) -> None:
    hub.leave(listener, tenant, subject)
    hub.exit(listener)
