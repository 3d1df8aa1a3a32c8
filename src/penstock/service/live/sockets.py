"""Watch many subjects over one WebSocket. Clients subscribe and unsubscribe by messages."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.websockets import WebSocket, WebSocketDisconnect

from penstock.service.live.access import LiveAccess
from penstock.service.live.hub import Hub, Mailbox, StreamEnded, Subject
from penstock.service.live.streams import KEEPALIVE_S, MAX_CONNECTION_S, SEND_TIMEOUT_S
from penstock.service.problems import Problem, problem_body

MAX_SUBJECTS: Final = 100
MAX_MESSAGE_CHARS: Final = 2000
# A client may send this many messages at once, and then this many a second; later ones wait unread.
MESSAGE_BURST: Final = 200
MESSAGES_PER_S: Final = 50.0
# Close codes: the client should reconnect; it was too slow; it sent bytes instead of text.
RESTART, TOO_SLOW, UNSUPPORTED = 1012, 1008, 1003
_KEEPALIVE: Final = '{"alive":true}'


class ClientMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """A message from a client. `version` is the version of the subject that the client has seen."""

    subscribe: str | None = None
    unsubscribe: str | None = None
    version: str | None = None


class SocketSession:
    """One WebSocket: receives the client's messages, and sends the states of its subjects."""

    def __init__(self, socket: WebSocket, hub: Hub, access: LiveAccess) -> None:
        self._socket = socket
        self._hub = hub
        self._access = access
        self._listener: Mailbox = hub.enter()
        # By subject: the version that the client says it has seen, until an update was sent.
        self._seen: dict[Subject, str | None] = {}
        self._sending = asyncio.Lock()
        self._next_message_at = 0.0

    async def run(self) -> None:
        """Serve the client until it leaves, is too slow, or the server stops."""
        receiving = asyncio.create_task(self._receive_all(), name="penstock live socket")
        end_timer = asyncio.get_running_loop().call_later(
            MAX_CONNECTION_S, self._listener.end, "over"
        )
        try:
            await self._send_all()
        except TimeoutError:
            await self._close(TOO_SLOW)
        except (WebSocketDisconnect, OSError, RuntimeError):
            pass  # The client has gone.
        finally:
            end_timer.cancel()
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            self._leave_all()

    async def _receive_all(self) -> None:
        try:
            await self._socket.accept()
            while True:
                text = await self._receive()
                if text is None:
                    self._listener.end("binary")
                    break
                await self._handle(text)
                # Without this pause, messages that have arrived already would follow each other at
                # once. Even a pause of zero seconds lets the server serve others in between.
                await asyncio.sleep(self._message_pause(asyncio.get_running_loop().time()))
        except (WebSocketDisconnect, OSError, RuntimeError, TimeoutError):
            pass  # The client has gone, or does not read.
        finally:
            self._listener.end("left")

    async def _receive(self) -> str | None:
        """Return the text of the next message, or None if the message is binary."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        text: str | None = message.get("text")
        return text

    def _message_pause(self, now: float) -> float:
        """Return how many seconds to wait before the next message is read."""
        unused_burst = now - MESSAGE_BURST / MESSAGES_PER_S
        self._next_message_at = max(self._next_message_at, unused_burst) + 1 / MESSAGES_PER_S
        return max(0.0, self._next_message_at - now)

    async def _handle(self, text: str) -> None:
        try:
            message = msgspec.json.decode(text[:MAX_MESSAGE_CHARS], type=ClientMessage)
        except msgspec.MsgspecError as error:
            examples = '{"subscribe": "job/42"} or {"unsubscribe": "job/42"}'
            detail = f"A message must look like {examples}: {error}"
            await self._refuse(None, Problem(422, "does-not-fit", detail))
            return
        try:
            if message.subscribe is not None:
                self._join(message.subscribe, message.version)
            if message.unsubscribe is not None:
                self._leave(self._hub.parse_subject(message.unsubscribe))
        except Problem as problem:
            await self._refuse(message.subscribe or message.unsubscribe, problem)

    def _join(self, text: str, version: str | None) -> None:
        subject = self._hub.parse_subject(text)
        self._access.check(subject)
        if subject not in self._seen and len(self._seen) >= MAX_SUBJECTS:
            detail = (
                f"One socket can have at most {MAX_SUBJECTS} subjects. Open another socket, or "
                "unsubscribe from some."
            )
            raise Problem(429, "too-many-subjects", detail)
        self._seen[subject] = version
        self._hub.join(self._listener, self._access.caller.tenant, subject)

    def _leave(self, subject: Subject) -> None:
        if subject in self._seen:
            del self._seen[subject]
            self._hub.leave(self._listener, self._access.caller.tenant, subject)

    def _leave_all(self) -> None:
        for subject in tuple(self._seen):
            self._leave(subject)
        self._hub.exit(self._listener)

    async def _send_all(self) -> None:
        try:
            while True:
                update = await self._listener.next(KEEPALIVE_S)
                if update is None:
                    await self._send(_KEEPALIVE)
                elif update.subject in self._seen:
                    if not update.is_same(self._seen[update.subject]):
                        await self._send(update.body.decode())
                    self._seen[update.subject] = None
                    if update.is_final:
                        self._leave(update.subject)
        except StreamEnded as end:
            if end.reason != "left":
                await self._close(UNSUPPORTED if end.reason == "binary" else RESTART)

    async def _refuse(self, subject: str | None, problem: Problem) -> None:
        answer: dict[str, Any] = {"subject": subject, "problem": problem_body(problem)}
        await self._send(msgspec.json.encode(answer).decode())

    async def _send(self, text: str) -> None:
        async with asyncio.timeout(SEND_TIMEOUT_S), self._sending:
            await self._socket.send_text(text)

    async def _close(self, code: int) -> None:
        try:
            async with asyncio.timeout(1):
                await self._socket.close(code)
        except (TimeoutError, RuntimeError, OSError, WebSocketDisconnect):
            pass
