"""Several worker processes under one parent, so that a machine's cores are used.

The parent runs no jobs. It starts the processes anew when they die, passes signals on, and ends
with the last of them. Each process has a pipe from the parent as its stdin: should the parent be
killed, the pipe closes and they stop by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from typing import IO

from msgspec import Struct

from penstock.events import Event

logger = logging.getLogger("penstock.fleet")

BACKOFF_FIRST = 0.5
BACKOFF_LAST = 30.0
# Who lives this long has started well, and has paid off earlier deaths.
HEALTHY = 30.0
STARTING = 10.0
# The exit codes of a command that says what is wrong and leaves: trying again would say it again.
CANNOT_START = (1, 2)


class ProcessStarted(Event, frozen=True):
    number: int
    pid: int


class ProcessEnded(Event, frozen=True):
    """`cause` completes the sentence "worker process 2 …"; `again_in` is None if it stays away."""

    number: int
    pid: int
    cause: str
    again_in: float | None


class Child(Struct, frozen=True):
    number: int
    process: asyncio.subprocess.Process
    began: float

    @property
    def lived(self) -> float:
        return time.monotonic() - self.began


class Fleet:
    """Runs a command several times over.

    fleet = Fleet([sys.executable, "-m", "penstock.cli", "work", "shop.jobs"], processes=4)
    loop.add_signal_handler(signal.SIGTERM, fleet.ask_to_stop)
    await fleet.run()
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        *,
        told: Callable[[Event], object] | None = None,
        output: IO[bytes] | None = None,
    ) -> None:
        self._command = command
        self._processes = processes
        self._told = told or log_event
        self._output = output
        self._children: dict[int, Child] = {}
        self._stopping = asyncio.Event()
        self._proven = False
        self._failed = False

    async def run(self) -> bool:
        """Keep the processes until all have ended; False if they could not even start."""
        async with asyncio.TaskGroup() as group:
            for number in range(1, self._processes + 1):
                group.create_task(self._keep(number))
        return not self._failed

    def ask_to_stop(self) -> None:
        """For signal handlers: let every process stop, and at a second call hurry."""
        self._stopping.set()
        for child in tuple(self._children.values()):
            _terminate(child.process)

    async def _keep(self, number: int) -> None:
        backoff = BACKOFF_FIRST
        while not self._stopping.is_set():
            child = await self._start(number)
            code = await child.process.wait()
            del self._children[number]
            if child.lived > HEALTHY:
                backoff = BACKOFF_FIRST
            again_in = backoff if self._comes_again(child, code) else None
            self._told(ProcessEnded(number, child.process.pid, cause_of(code), again_in))
            if again_in is None:
                return
            backoff = min(backoff * 2, BACKOFF_LAST)
            await self._pause(again_in)

    async def _start(self, number: int) -> Child:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            # Ctrl-C in a terminal reaches a whole group; here the parent alone passes it on.
            start_new_session=True,
        )
        child = Child(number, process, time.monotonic())
        self._children[number] = child
        self._told(ProcessStarted(number, process.pid))
        if self._stopping.is_set():
            _terminate(process)
        return child

    def _comes_again(self, child: Child, code: int) -> bool:
        """Not if it was told to end, and not if nothing ever worked and it says what is wrong."""
        self._proven = self._proven or child.lived > STARTING
        if code == 0 or self._stopping.is_set():
            return False
        if code in CANNOT_START and not self._proven:
            self._failed = True
            self.ask_to_stop()
            return False
        return True

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


def cause_of(code: int) -> str:
    """What a return code means: "was killed by SIGKILL", "ended with exit code 1"."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def log_event(event: Event) -> None:
    match event:
        case ProcessStarted(number, pid):
            logger.info("Worker process %d has started, its pid is %d.", number, pid)
        case ProcessEnded(number, pid, cause, None):
            logger.info("Worker process %d, pid %d, %s.", number, pid, cause)
        case ProcessEnded(number, pid, cause, again_in):
            logger.error(
                "Worker process %d, pid %d, %s; it is started again in %.1f s.",
                number,
                pid,
                cause,
                again_in,
            )


def _terminate(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
