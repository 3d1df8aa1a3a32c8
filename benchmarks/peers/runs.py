"""The handlers that have run in this process, and what the process has used."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EVERY = 0.01
_STATUS = Path("/proc/self/status")


class Runs:
    """Counts handlers; every peer's handler does this and nothing else."""

    def __init__(self, stamped: bool = False) -> None:
        self.count = 0
        self.began: float | None = None
        self.stamps: dict[int, float] | None = {} if stamped else None

    def note(self, number: int) -> None:
        """The handler of this job has begun."""
        if self.stamps is not None:
            self.stamps[number] = time.monotonic()
        if self.began is None:
            self.began = time.monotonic()
        self.count += 1


class Meter:
    """Looks every few milliseconds how many handlers have run, and tells it."""

    def __init__(
        self, runs: Runs, tell: Callable[..., None], cpu_seconds: Callable[[], float]
    ) -> None:
        self._runs = runs
        self._tell = tell
        self._samples: list[tuple[float, int]] = []
        self._cpu_seconds = cpu_seconds
        self._cpu = cpu_seconds()

    async def watch(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(EVERY)

    def _look(self) -> None:
        now, count = time.monotonic(), self._runs.count
        if count != (self._samples[-1][1] if self._samples else 0):
            self._samples.append((now, count))
            self._tell("Progress", settled=count)

    def finished(self) -> dict[str, Any]:
        """All that was seen; the first sample is the start of the first handler."""
        self._look()
        return {
            "samples": [(self._runs.began, 0), *self._samples] if self._samples else [],
            "cpu_seconds": self._cpu_seconds() - self._cpu,
            "peak_rss": _peak_rss(),
            "stamps": self._runs.stamps or {},
        }


def cpu_seconds() -> float:
    """Of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_rss() -> int | None:
    """Not ru_maxrss: on Linux a child begins with its parent's."""
    if not _STATUS.exists():
        return None
    lines = _STATUS.read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024
