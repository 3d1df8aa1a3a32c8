"""Stream the states of one subject as server-sent events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.service.live.hub import Hub, Mailbox, StreamEnded, Subject, Update
from penstock.service.problems import Problem

# Proxies may cut connections that are silent for longer.
KEEPALIVE_S: Final = 15.0
# A client that reads nothing for this long is given up.
SEND_TIMEOUT_S: Final = 10.0
# Clients must then connect again, which ends the access of those who may no longer listen.
MAX_CONNECTION_S: Final = 15 * 60.0
# The random delay spreads the clients of a stopped server, which all connect to another one.
RECONNECT_MS: Final = (500, 3000)

STREAM_HEADERS: Final = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}
_KEEPALIVE: Final = b": alive\n\n"


class EventStream(Response):
    """Streams a listener's updates until one is final, the client leaves, or the server stops."""

    media_type = "text/event-stream"

    def __init__(
        self, listener: Mailbox, first: Update | None, headers: Mapping[str, str] | None = None
    ) -> None:
        """`first` is the update to send at once, or None if the client has already seen it."""
        super().__init__(headers={**STREAM_HEADERS, **(headers or {})})
        del self.headers["content-length"]
        self._listener = listener
        self._first = first
        self._on_end: Callable[[], None] = lambda: None

    def on_end(self, callback: Callable[[], None]) -> None:
        """Set the function to call when the stream has ended."""
        self._on_end = callback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watching = asyncio.create_task(
            self._wait_for_disconnect(receive), name="penstock live client"
        )
        end_timer = asyncio.get_running_loop().call_later(
            MAX_CONNECTION_S, self._listener.end, "over"
        )
        try:
            await self._stream(send)
        except (TimeoutError, OSError):
            pass  # uvicorn closes the connection of an unfinished response.
        finally:
            end_timer.cancel()
            watching.cancel()
            self._on_end()
            await asyncio.gather(watching, return_exceptions=True)

    async def _stream(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await send(start)
        retry = f"retry: {random.randint(*RECONNECT_MS)}\n\n".encode()
        await _send(send, retry if self._first is None else retry + frame(self._first))
        try:
            update = self._first
            while update is None or not update.is_final:
                update = await self._listener.next(KEEPALIVE_S)
                await _send(send, _KEEPALIVE if update is None else frame(update))
        except StreamEnded as end:
            if end.reason == "left":
                return
        await _send(send, b"", more=False)

    async def _wait_for_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.end("left")


def frame(update: Update) -> bytes:
    """Encode an update as one event. The JSON has no line breaks, so one `data:` line is enough."""
    version = b"" if update.present is None else b"id: " + update.present.version.encode() + b"\n"
    return version + b"data: " + update.body + b"\n\n"


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await send({"type": "http.response.body", "body": body, "more_body": more})


# If the first state takes longer, the database does not answer.
FIRST_STATE_TIMEOUT_S: Final = 5.0


async def open_stream(
    hub: Hub, tenant: str | None, subject: Subject, seen: str, headers: dict[str, str]
) -> Response:
    """Open a stream of a subject as `tenant` sees it; None stands for all tenants.

    Raises a Problem if the subject does not exist. If the subject is final and the client has seen
    its last version (`seen`), the response is a 204.
    """
    listener = hub.enter()
    try:
        hub.join(listener, tenant, subject)
        first = expect_existing(await _first_update(listener))
    except BaseException:
        _leave(hub, listener, tenant, subject)
        raise
    is_seen = first.is_same(seen)
    if is_seen and first.is_final:
        _leave(hub, listener, tenant, subject)
        return Response(status_code=204, headers=headers)
    stream = EventStream(listener, None if is_seen else first, headers)
    stream.on_end(lambda: _leave(hub, listener, tenant, subject))
    return stream


async def _first_update(listener: Mailbox) -> Update:
    try:
        update = await listener.first(FIRST_STATE_TIMEOUT_S)
    except StreamEnded:
        update = None
    if update is None:
        raise Problem(
            503,
            "database-lost",
            "The database does not answer, or this server is stopping. Try again in a moment.",
        )
    return update


def expect_existing(update: Update) -> Update:
    """Return the update, or raise a Problem with 404 if its subject does not exist."""
    if update.present is None:
        raise Problem(404, "not-found", f"There is no {update.subject.kind} {update.subject.id}.")
    return update


def _leave(hub: Hub, listener: Mailbox, tenant: str | None, subject: Subject) -> None:
    hub.leave(listener, tenant, subject)
    hub.exit(listener)
