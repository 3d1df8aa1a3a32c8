"""Where a child was when it died, as `faulthandler` wrote it, without what is always the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

THREAD: Final = re.compile(r"^(Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)
FRAME: Final = re.compile(r'^  File "(.*)", line \d+ in ')
# From here on a stack is that of every job.
BELOW: Final = re.compile(r"/(penstock/(worker|isolation)|asyncio|concurrent/futures)/[^/]*\.py$")
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
