"""The channel between a worker and one child process, at both of its ends."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from penstock.forks import reset_in_forks
from penstock.isolation.client import Born
from penstock.isolation.death import Cause
from penstock.isolation.protocol import Frames, NotAMessage, framed, received
from penstock.worker.children.messages import (
    Answer,
    Asked,
    FromChild,
    FromWorker,
    encode,
    raised,
    read_from_child,
    read_from_worker,
    trouble,
)

if TYPE_CHECKING:
    from penstock.worker.children.assignment import Assignment


logger = logging.getLogger("penstock.isolation")

# The largest result, or all steps that a job may keep, and something more.
LONGEST: Final = 64 * 2**20
# How long a supervisor may take to tell of a death.
DYING: Final = 1.0

Serve = Callable[["Assignment | None", Asked], Awaitable[Any]]
Heard = Callable[["Child", FromChild], None]
Broken = Callable[["Child", Cause, object], None]


class Child:
    """The channel to a child, and how many jobs it has run."""

    def __init__(self, born: Born, heard: Heard, serve: Serve, broken: Broken) -> None:
        self.number = born.number
        self.jobs = 0
        self.is_up = False
        # Why its channel can be used no more.
        self.broken_by: Cause | None = None
        self.is_doomed = False
        # What it runs at the moment: for the one who gave it.
        self.errand: Assignment | None = None
        self._channel = born.channel
        self._heard = heard
        self._serve = serve
        self._broken = broken
        self._frames = Frames(LONGEST)
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._channel, self._read)
        self._serving: set[asyncio.Task[None]] = set()
        self._is_open = True

    def send(self, message: FromWorker) -> None:
        """Say something to the child; never waits."""
        if not self._is_open:
            return
        data = framed(encode(message))
        if not self._unsent:
            try:
                data = data[self._channel.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                return  # It is dead; the supervisor will tell.
        if data:
            if not self._unsent:
                self._loop.add_writer(self._channel, self._write)
            self._unsent += data

    def _write(self) -> None:
        try:
            del self._unsent[: self._channel.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._channel)

    def _read(self) -> None:
        if (data := received(self._channel)) is None:
            return
        if not data:
            # The supervisor tells how it ended, unless a job has only closed what is not its own.
            self._loop.remove_reader(self._channel)
            self._loop.call_later(DYING, self._hung_up)
            return
        try:
            for message in self._frames.feed(data):
                self._hear(read_from_child(message))
        except (NotAMessage, msgspec.MsgspecError) as error:
            # Somebody else speaks through it, or writes over its memory.
            self._loop.remove_reader(self._channel)
            self._broken(self, "garbage", error)

    def _hung_up(self) -> None:
        if self._is_open:
            self._broken(self, "closed", "it closed its channel and lives")

    def _hear(self, message: FromChild) -> None:
        try:
            self._take(message)
        except Exception:
            # A filter of a log, say: what comes after it must be heard all the same.
            logger.exception("What a child process said was not heard: %s", type(message).__name__)

    def _take(self, message: FromChild) -> None:
        if isinstance(message, Asked):
            # For what it runs now: in a moment that may be another attempt.
            task = self._loop.create_task(self._answer(message, self.errand))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        else:
            self._heard(self, message)

    async def _answer(self, asked: Asked, errand: Assignment | None) -> None:
        try:
            answer = Answer(asked.call, await self._serve(errand, asked))
        except Exception as error:
            answer = Answer(asked.call, None, trouble(error))
        if asked.call:
            self.send(answer)

    def close(self) -> None:
        """It is dead: what it said before is heard, and nothing more."""
        if self._is_open:
            self._read()
            self._is_open = False
            for task in self._serving:
                task.cancel()
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()


class Channel:
    """Sends from any thread, hears on the loop, and makes calls of both."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        # As loops want it; some make it so themselves.
        self._channel.setblocking(False)
        self._writable = select.poll()
        self._writable.register(channel, select.POLLOUT)
        self._frames = Frames()
        self.reset_after_fork()
        reset_in_forks(self)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    def reset_after_fork(self) -> None:
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
