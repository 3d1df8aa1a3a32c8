"""One child process, as its worker sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.isolation.client import Born
from penstock.isolation.death import Cause
from penstock.isolation.protocol import Frames, NotAMessage, framed, received
from penstock.worker.inside.messages import (
    Answer,
    Asked,
    FromChild,
    FromWorker,
    encode,
    read_from_child,
)
from penstock.worker.inside.troubles import trouble

if TYPE_CHECKING:
    from penstock.worker.errand import Errand

logger = logging.getLogger("penstock.isolation")

# The largest result, or all steps that a job may keep, and something more.
LONGEST: Final = 64 * 2**20
# How long a warden may take to tell of a death.
DYING: Final = 1.0

Serve = Callable[["Errand | None", Asked], Awaitable[Any]]
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
        self.errand: Errand | None = None
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
                return  # It is dead; the warden will tell.
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
            # The warden tells how it ended, unless a job has only closed what is not its own.
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

    async def _answer(self, asked: Asked, errand: Errand | None) -> None:
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
