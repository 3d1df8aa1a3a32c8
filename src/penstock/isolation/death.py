"""Describes why a child died, and shortens the stack that `faulthandler` wrote of it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

THREAD_LINE: Final = re.compile(r"^(Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)
FRAME_LINE: Final = re.compile(r'^  File "(.*)", line \d+ in ')
# Below these files the stack is the same for every job.
CALLER_FILE: Final = re.compile(
    r"/(penstock/(worker|isolation)/(\w+/)?|(asyncio|concurrent/futures)/)[^/]*\.py$"
)
WAITING_FILE: Final = re.compile(r"/threading\.py$")
CURRENT_THREAD: Final = "Current thread"
FATAL_ERROR: Final = "Fatal Python error"


def shorten_trace(trace: str) -> str:
    """Return the fatal error with the stack of the crashed thread, or else of all threads."""
    head, *parts = THREAD_LINE.split(trace)
    threads = list(_threads(parts))
    if head.startswith(FATAL_ERROR):
        threads = [thread for thread in threads if thread[0] == CURRENT_THREAD]
    stacks = [stack for _, stack in threads if stack]
    if not stacks:
        return trace.strip()
    lines = [head.strip(), *("\n".join(["Most recent call first:", *stack]) for stack in stacks)]
    return "\n".join(filter(None, lines))


def _threads(parts: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the header of each thread, and its frames unless it only waits."""
    for header, lines in zip(parts[::2], parts[1::2], strict=True):
        frames = []
        for line in lines.splitlines():
            if not (frame := FRAME_LINE.match(line)):
                continue
            if CALLER_FILE.search(frame[1]):
                break
            frames.append(line)
        running = [line for line in frames if not WAITING_FILE.search(FRAME_LINE.match(line)[1])]  # type: ignore[index]
        yield header, frames if running else []


# Why a child was killed. By its supervisor: it held more memory than allowed, ran longer than
# allowed (time), longer than the job's own timeout and grace (timeout), did not begin its job in
# time (late), or the worker asked for it. The worker asks because the child did not stop, wrote
# garbage, or closed the channel. "supervisor": the supervisor itself was killed.
Cause = Literal["memory", "time", "timeout", "late", "asked", "garbage", "closed", "supervisor"]

SEGFAULTS: Final = (signal.SIGSEGV, signal.SIGBUS)
MEGABYTE: Final = 2**20


class Death(Struct, frozen=True, kw_only=True):
    """How a child ended: its exit status, why it was killed (if it was), and its last stack.

    `began` is when its job began, by the system's monotonic clock, or 0 if the child had no job.
    """

    status: int
    cause: Cause | None = None
    resident: int = 0
    limit: float = 0.0
    began: float = 0.0
    trace: str = ""

    @property
    def name(self) -> str:
        """The error type that is reported for this death."""
        if self.cause == "memory":
            return "OutOfMemory"
        if self.cause in ("time", "timeout"):
            return "TimeLimit"
        if self.cause in ("garbage", "closed"):
            return "ProtocolError"
        if self.status in (-code for code in SEGFAULTS):
            return "Segfault"
        return "Killed" if self.status < 0 else "Exited"

    def __str__(self) -> str:
        match self.cause:
            case "memory":
                return (
                    f"the child process held {_megabytes(self.resident)} of memory, but only "
                    f"{_megabytes(self.limit)} are allowed"
                )
            case "time" | "timeout":
                return f"the child process took longer than {self.limit:g} s"
            case "late":
                return f"the child process did not begin the job within {self.limit:g} s"
            case "asked":
                return "the child process did not stop when it was told to"
            case "garbage":
                return (
                    "the child process sent invalid data to its worker, as happens when a job "
                    f"writes to a file descriptor that it did not open{self._end}"
                )
            case "closed":
                return (
                    "the child process closed the channel to its worker, as happens when a job "
                    f"closes a file descriptor that it did not open{self._end}"
                )
            case "supervisor":
                return (
                    "the supervisor of the child process is gone, and the child with it: something "
                    "killed it, perhaps the job, or the system when it had no memory left"
                )
        return self._status

    @property
    def _end(self) -> str:
        """Return the exit status as the end of a sentence, or an empty text after a SIGKILL."""
        return "" if self.status == -signal.SIGKILL else f"; {self._status}"

    @property
    def _status(self) -> str:
        return _describe_status(
            self.status, "in the middle of the job" if self.began else "without a job"
        )


def death_of_supervisor(began: float) -> Death:
    """Return the death of a child whose supervisor is gone and cannot report it."""
    return Death(status=-signal.SIGKILL, cause="supervisor", began=began)


def _describe_status(status: int, when: str) -> str:
    if status >= 0:
        return f"the child process left with exit code {status} {when}"
    number = -status
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    ended = f"signal {number} ({name}) ended the child process"
    if number == signal.SIGKILL:
        return f"{ended}: somebody sent it, most often the system when it has no memory left"
    return ended


def _megabytes(size: float) -> str:
    return f"{size / MEGABYTE:.0f} MB"
