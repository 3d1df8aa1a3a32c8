"""A page of memory that a supervisor shares with its children: what each is allowed at the moment.

A worker writes when it gives a job, a child when it begins and ends it; nobody has to be told. The
clock is the system's
monotonic one, the same in all processes.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import Final, NamedTuple

from penstock.isolation.system import scratch

MOST: Final = 1024
_ENTRY: Final = struct.Struct("=ddqq")
ROW: Final = 64
SIZE: Final = MOST * ROW
# Nothing; a job that has begun; the same, and its seconds are those of its own timeout; one that
# was given and has not begun.
IDLE, BUSY, TIMEOUT, GIVEN = range(4)


class Allowed(NamedTuple):
    """Seconds since a moment, and bytes; 0 is no limit."""

    since: float
    seconds: float
    memory: int
    state: int

    @property
    def began(self) -> float:
        """When the job began; 0 if it has not."""
        return 0.0 if self.state == GIVEN else self.since

    def is_late(self, now: float) -> bool:
        return self.seconds > 0 and now > self.since + self.seconds


class LimitsPage:
    """One row a child."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def begin(self, row: int, allowed: Allowed) -> None:
        _ENTRY.pack_into(self._page, row * ROW, *allowed)

    def give(self, row: int, seconds: float) -> None:
        """Something was given to the child, which has so long to begin it."""
        self.begin(row, Allowed(time.monotonic(), seconds, 0, GIVEN))

    def close(self) -> None:
        self._page.close()

    def end(self, row: int) -> None:
        _ENTRY.pack_into(self._page, row * ROW, 0.0, 0.0, 0, IDLE)

    def read(self, row: int) -> Allowed | None:
        """What the child is allowed; None while it is idle."""
        entry = _ENTRY.unpack_from(self._page, row * ROW)
        if entry != _ENTRY.unpack_from(self._page, row * ROW):
            return None  # It is being written at this moment.
        return None if entry[-1] == IDLE else Allowed(*entry)

    def began(self, row: int) -> float:
        """When it began what it does; 0 while it does nothing."""
        allowed = self.read(row)
        return 0.0 if allowed is None else allowed.began


def new_board() -> tuple[int, LimitsPage]:
    """An empty page and the file behind it, which others can map."""
    with scratch() as file:
        file.truncate(SIZE)
        return os.dup(file.fileno()), board_of(file.fileno())


def board_of(file: int) -> LimitsPage:
    """The page in a file."""
    return LimitsPage(mmap.mmap(file, SIZE))
