"""A WebSocket: one connection for many subjects, which come and go by messages."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.websockets import WebSocket, WebSocketDisconnect

from penstock.service.live.access import LiveAccess
from penstock.service.live.hub import Ended, Hub, Listener, Subject
from penstock.service.live.streams import KEEPALIVE_S, MAX_CONNECTION_S, SEND_TIMEOUT_S
from penstock.service.problems import Problem, problem_body

MAX_SUBJECTS: Final = 100
MAX_MESSAGE_CHARS: Final = 2000
# A client may send this many messages at once, and then this many a second; later ones wait unread.
MESSAGE_BURST: Final = 200
MESSAGES_PER_S: Final = 50.0
# Codes of a close: come back, it was too slow, and it sent bytes instead of text.
RESTART, TOO_SLOW, UNSUPPORTED = 1012, 1008, 1003
_KEEPALIVE: Final = '{"alive":true}'


class ClientMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client asks for; `version` is what it has seen of the subject."""

    subscribe: str | None = None
    unsubscribe: str | None = None
    version: str | None = None


class SocketSession:
    """One socket: what its client asks for, and what it is told."""

    def __init__(self, socket: WebSocket, hub: Hub, entry: LiveAccess) -> None:
        self._socket = socket
        self._hub = hub
        self._entry = entry
        self._listener: Listener = hub.enter()
        self._seen: dict[Subject, str | None] = {}
        self._sending = asyncio.Lock()
        self._next_message_at = 0.0

    async def run(self) -> None:
        """Talk until the client goes, is too slow, or the server stops."""
        hearing = asyncio.create_task(self._hear(), name="penstock live socket")
        ending = asyncio.get_running_loop().call_later(MAX_CONNECTION_S, self._listener.end, "over")
        try:
            await self._tell()
        except TimeoutError:
            await self._close(TOO_SLOW)
        except (WebSocketDisconnect, OSError, RuntimeError):
            pass  # It has gone.
        finally:
            ending.cancel()
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            self._leave_all()

    async def _hear(self) -> None:
        try:
            await self._socket.accept()
            while True:
                text = await self._receive()
                if text is None:
                    self._listener.end("binary")
                    break
                await self._take(text)
                # Messages that have arrived already are received without a pause. Even a pause of
                # zero seconds lets the server answer everybody else in between.
                await asyncio.sleep(self._message_pause(asyncio.get_running_loop().time()))
        except (WebSocketDisconnect, OSError, RuntimeError, TimeoutError):
            pass  # It has gone, or does not read what it is told.
        finally:
            self._listener.end("left")

    async def _receive(self) -> str | None:
        """The text of the next message; None for one of bytes."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        text: str | None = message.get("text")
        return text

    def _message_pause(self, now: float) -> float:
        """How many seconds to wait before the next message is read."""
        unused_burst = now - MESSAGE_BURST / MESSAGES_PER_S
        self._next_message_at = max(self._next_message_at, unused_burst) + 1 / MESSAGES_PER_S
        return max(0.0, self._next_message_at - now)

    async def _take(self, text: str) -> None:
        try:
            wish = msgspec.json.decode(text[:MAX_MESSAGE_CHARS], type=ClientMessage)
        except msgspec.MsgspecError as error:
            told = f'A message is {{"subscribe": "job/42"}} or {{"unsubscribe": "job/42"}}: {error}'
            await self._refuse(None, Problem(422, "does-not-fit", told))
            return
        try:
            if wish.subscribe is not None:
                self._join(wish.subscribe, wish.version)
            if wish.unsubscribe is not None:
                self._leave(self._hub.subject(wish.unsubscribe))
        except Problem as problem:
            await self._refuse(wish.subscribe or wish.unsubscribe, problem)

    def _join(self, text: str, version: str | None) -> None:
        subject = self._hub.subject(text)
        self._entry.check(subject)
        if subject not in self._seen and len(self._seen) >= MAX_SUBJECTS:
            told = f"One socket has at most {MAX_SUBJECTS} subjects: open another, or leave some."
            raise Problem(429, "too-many-subjects", told)
        self._seen[subject] = version
        self._hub.join(self._listener, self._entry.caller.tenant, subject)

    def _leave(self, subject: Subject) -> None:
        if subject in self._seen:
            del self._seen[subject]
            self._hub.leave(self._listener, self._entry.caller.tenant, subject)

    def _leave_all(self) -> None:
        for subject in tuple(self._seen):
            self._leave(subject)
        self._hub.exit(self._listener)

    async def _tell(self) -> None:
        try:
            while True:
                told = await self._listener.next(KEEPALIVE_S)
                if told is None:
                    await self._send(_KEEPALIVE)
                elif told.subject in self._seen:
                    if not told.is_same(self._seen[told.subject]):
                        await self._send(told.body.decode())
                    self._seen[told.subject] = None
                    if told.is_final:
                        self._leave(told.subject)
        except Ended as ended:
            if ended.why != "left":
                await self._close(UNSUPPORTED if ended.why == "binary" else RESTART)

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
