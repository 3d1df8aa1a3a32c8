"""A worker's way to its supervisor: asks for children, hears how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing import spawn
from typing import Final, NamedTuple

from penstock.forks import reset_in_forks
from penstock.isolation.death import Death
from penstock.isolation.limits_page import MOST, new_board
from penstock.isolation.protocol import (
    Died,
    Frames,
    Kill,
    Plan,
    Settled,
    Start,
    encode,
    framed,
    read_news,
    received,
)
from penstock.isolation.system import program, scratch

logger = logging.getLogger("penstock.isolation")

LEAVE: Final = 5.0
MAIN: Final = ("init_main_from_name", "init_main_from_path")


class Born(NamedTuple):
    """A child that was asked for: its number, and our end of the channel to it."""

    number: int
    channel: socket.socket


class SupervisorClient:
    """One supervisor and its children, for the loop that it was started in."""

    def __init__(
        self,
        plan: Plan,
        died: Callable[[int, Death], None],
        settled: Callable[[str | None], None],
        lost: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._died = died
        self._settled = settled
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._numbers = 0
        self._rows: dict[int, int] = {}
        self._free = set(range(MOST))
        self._process: subprocess.Popen[bytes] | None = None
        # Whether the supervisor has imported all that it needs, or has said why it cannot.
        self.is_settled = False

    def start(self) -> None:
        """Start the supervisor; what it has to say comes later."""
        self.since = time.monotonic()
        with ExitStack() as undo, ExitStack() as given:
            self._control, theirs = socket.socketpair()
            undo.callback(self._control.close)
            given.callback(theirs.close)
            board, self._board = new_board()
            undo.callback(self._board.close)
            given.callback(os.close, board)
            plan = given.enter_context(scratch())
            plan.write(encode(self._plan))
            files = (theirs.fileno(), board, plan.fileno())
            self._process = subprocess.Popen(
                program("penstock.isolation.supervisor", *files),
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            undo.pop_all()
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._hear)
        reset_in_forks(self)

    def reset_after_fork(self) -> None:
        """Close the socket in a process that a job has forked in the worker.

        The supervisor hears by it that the worker has ended, even if such a process lives on.
        """
        if self._process is not None:
            # A loop that reads from a socket puts off its `close`.
            os.close(self._control.detach())

    def bear(self) -> Born:
        """Ask for a child; raises OSError if that cannot be."""
        ours, theirs = socket.socketpair()
        number, row = self._numbers + 1, self._free.pop()
        try:
            with theirs:
                self._say(Start(number, row), [theirs.fileno()])
        except OSError:
            ours.close()
            self._free.add(row)
            raise
        self._numbers, self._rows[number] = number, row
        ours.setblocking(False)
        return Born(number, ours)

    def give(self, number: int, seconds: float) -> None:
        """A child is given something, which it must begin within so many seconds."""
        self._board.give(self._rows[number], seconds)

    def began(self, number: int) -> float:
        """When a child began what it does, by the system's monotonic clock; 0 if it has not."""
        return self._board.began(self._rows[number]) if number in self._rows else 0.0

    def kill(self, number: int) -> None:
        """Have a child killed."""
        # A supervisor that does not read is stopped or gone: its end is heard of by itself.
        if number in self._rows:
            with contextlib.suppress(OSError):
                self._say(Kill(number), [])

    def _say(self, order: Start | Kill, channels: list[int]) -> None:
        socket.send_fds(self._control, [framed(encode(order))], channels)

    def _hear(self) -> None:
        if (data := received(self._control)) is None:
            return
        if not data:
            self._loop.remove_reader(self._control)
            if self._process is not None:
                logger.error("The supervisor of child processes is gone, and they with it.")
                self._lost()
            return
        for message in self._frames.feed(data):
            self._take(message)

    def _take(self, message: bytes) -> None:
        match read_news(message):
            case Died(number, death):
                self._free.add(self._rows.pop(number))
                self._died(number, death)
            case Settled(forks, trouble):
                self.is_settled = True
                if not forks:
                    logger.info(
                        "Imports have started threads or opened connections: child processes are "
                        "started anew, not forked."
                    )
                self._settled(trouble)

    async def close(self) -> None:
        """Let the supervisor go, and all children with it."""
        process, self._process = self._process, None
        if process is None:
            return
        self._loop.remove_reader(self._control)
        self._control.close()
        self._board.close()
        await asyncio.to_thread(_end, process)


def main_module() -> dict[str, str]:
    """How a child finds what is `__main__` here."""
    told = spawn.get_preparation_data("penstock")
    return {name: str(told[name]) for name in MAIN if name in told}


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(LEAVE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
