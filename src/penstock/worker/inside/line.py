"""A child's line to its worker."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from penstock.forks import begins_anew
from penstock.isolation.protocol import Frames, framed, received
from penstock.worker.inside.messages import (
    Answer,
    Asked,
    FromChild,
    FromWorker,
    encode,
    read_from_worker,
)
from penstock.worker.inside.troubles import raised


class Line:
    """Sends from any thread, hears on the loop, and makes calls of both."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        # As loops want it; some make it so themselves.
        self._channel.setblocking(False)
        self._writable = select.poll()
        self._writable.register(channel, select.POLLOUT)
        self._frames = Frames()
        self.begin_anew()
        begins_anew(self)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    def begin_anew(self) -> None:
        """Also in what a job forks, where the lock may be held by a thread that is not there."""
        self._sending = threading.Lock()

    def listen(self, heard: Callable[[FromWorker], None], gone: Callable[[], None]) -> None:
        """Hand on what the worker says, on the running loop."""
        self._heard, self._gone = heard, gone
        asyncio.get_running_loop().add_reader(self._channel, self._hear)

    def send(self, message: FromChild) -> None:
        """Say something to the worker; waits while it has not read what was said before."""
        rest = memoryview(framed(encode(message)))
        with self._sending:
            while rest:
                try:
                    rest = rest[self._channel.send(rest) :]
                except BlockingIOError:
                    self._writable.poll()

    async def ask(self, token: UUID, what: str, *args: Any) -> Any:
        """Have the worker do something for an attempt, and return or raise what came of it."""
        self._number += 1
        number = self._number
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            self.send(Asked(number, token, what, list(args)))
            return await future
        finally:
            del self._calls[number]

    def tell(self, token: UUID, what: str, *args: Any) -> None:
        """The same without an answer."""
        self.send(Asked(0, token, what, list(args)))

    def _hear(self) -> None:
        if (data := received(self._channel)) is None:
            return
        if not data:
            self._gone()
            return
        for message in self._frames.feed(data):
            told = read_from_worker(message)
            if isinstance(told, Answer):
                self._answer(told)
            else:
                self._heard(told)

    def _answer(self, answer: Answer) -> None:
        future = self._calls.get(answer.call)
        if future is None or future.done():
            return
        if answer.trouble is None:
            future.set_result(answer.value)
        else:
            future.set_exception(raised(answer.trouble))
