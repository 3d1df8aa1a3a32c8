"""How a child ended, in words, and where it was, as `faulthandler` wrote it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

THREAD: Final = re.compile(r"^(Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)
FRAME: Final = re.compile(r'^  File "(.*)", line \d+ in ')
# From here on a stack is that of every job.
BELOW: Final = re.compile(
    r"/(penstock/(worker|isolation)/(\w+/)?|(asyncio|concurrent/futures)/)[^/]*\.py$"
)
WAITS: Final = re.compile(r"/threading\.py$")
CURRENT: Final = "Current thread"
FATAL: Final = "Fatal Python error"


def shortened(trace: str) -> str:
    """What was fatal, and the frames of the handler: of the thread that crashed, or of all."""
    head, *parts = THREAD.split(trace)
    threads = list(_threads(parts))
    if head.startswith(FATAL):
        threads = [each for each in threads if each[0] == CURRENT]
    stacks = [stack for _, stack in threads if stack]
    if not stacks:
        return trace.strip()
    lines = [head.strip(), *("\n".join(["Most recent call first:", *stack]) for stack in stacks)]
    return "\n".join(filter(None, lines))


def _threads(parts: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Which thread, and those of its frames that tell something."""
    for which, lines in zip(parts[::2], parts[1::2], strict=True):
        frames = []
        for line in lines.splitlines():
            if not (found := FRAME.match(line)):
                continue
            if BELOW.search(found[1]):
                break
            frames.append(line)
        tells = [line for line in frames if not WAITS.search(FRAME.match(line)[1])]  # type: ignore[index]
        yield which, frames if tells else []


# Why a supervisor killed: more memory than allowed, longer than allowed, longer than the job's own
# timeout and its grace, because it did not begin what it was given, or because it was asked to.
# The worker asked because the child wrote something that is no message, or closed the channel.
# Or it was not the supervisor, who was killed itself.
Cause = Literal["memory", "time", "timeout", "late", "asked", "garbage", "closed", "supervisor"]

SEGFAULTS: Final = (signal.SIGSEGV, signal.SIGBUS)
MEGABYTE: Final = 2**20


class Death(Struct, frozen=True, kw_only=True):
    """The end of a child: its exit status, why it was killed if it was, where it was then; and
    when what it did had begun, by the system's monotonic clock, 0 if it did nothing."""

    status: int
    cause: Cause | None = None
    resident: int = 0
    limit: float = 0.0
    began: float = 0.0
    trace: str = ""

    @property
    def name(self) -> str:
        """What it is called in an error's type."""
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
                    f"the child process held {_megabytes(self.resident)} of memory, "
                    f"{_megabytes(self.limit)} are allowed"
                )
            case "time" | "timeout":
                return f"the child process took longer than {self.limit:g} s"
            case "late":
                return f"the child process did not begin the job within {self.limit:g} s"
            case "asked":
                return "the child process was told to stop and did not"
            case "garbage":
                return (
                    "the child process wrote something that is no message to its worker, as a job "
                    f"does that writes to a file which is not its own{self._end}"
                )
            case "closed":
                return (
                    "the child process closed the channel to its worker, as a job does that closes "
                    f"a file which is not its own{self._end}"
                )
            case "supervisor":
                return (
                    "the supervisor of the child process is gone, and the child with it: something "
                    "killed it, perhaps the job, or the system when it had no memory left"
                )
        return self._status

    @property
    def _end(self) -> str:
        """How it ended, if that was before it could be killed."""
        return "" if self.status == -signal.SIGKILL else f"; {self._status}"

    @property
    def _status(self) -> str:
        return _told(self.status, "in the middle of the job" if self.began else "without a job")


def gone_with_its_supervisor(began: float) -> Death:
    """The end of a child that nobody could tell of any more."""
    return Death(status=-signal.SIGKILL, cause="supervisor", began=began)


def _told(status: int, when: str) -> str:
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
