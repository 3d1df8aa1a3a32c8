"""What a process has used: processor time and memory, as far as this system tells."""

from __future__ import annotations

import os
import resource
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")


def cpu_seconds() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss() -> int | None:
    """Bytes of memory in use now."""
    try:
        return int(_STATM.read_text().split()[1]) * PAGE
    except OSError:
        return None


def peak_rss() -> int | None:
    """The most bytes of memory that were in use.

    Not ru_maxrss: on Linux a child begins with its parent's.
    """
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


def cpu_seconds_below(pid: int) -> float | None:
    """User and system time of all processes that this one has started, and they in turn."""
    try:
        parents = {int(each.name): _stat(each) for each in Path("/proc").glob("[0-9]*")}
    except OSError:
        return None
    below, ticks = {pid}, 0
    while found := [each for each, stat in parents.items() if stat and stat[0] in below]:
        below.update(found)
        # Its own time, and that of those who have ended.
        ticks += sum(sum(stat[1:]) for stat in map(parents.pop, found) if stat)
    return ticks / TICKS if parents else None


def _stat(process: Path) -> tuple[int, ...]:
    """The parent of a process, and the ticks it has used; nothing if it has just ended."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ()
    return (int(fields[1]), *map(int, fields[11:15]))


def cpu_seconds_of(pids: list[int]) -> float | None:
    """User and system time of Postgres backends on this machine; None if they are elsewhere."""
    ticks = 0
    for pid in pids:
        try:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        except OSError:
            return None
        if "postgres" not in name:
            return None
        fields = rest.split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS if pids else None
