"""Shared memory with one row for each child, which says what the child may use at the moment.

The worker writes a child's row when it assigns a job. The child writes its row when it begins and
ends a job. The supervisor reads the rows, so no messages are needed. Times are those of the
system's monotonic clock, which is the same in all processes.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import Final, NamedTuple

from penstock.isolation.system import open_scratch_file

MAX_CHILDREN: Final = 1024
_ROW_FORMAT: Final = struct.Struct("=ddqq")
ROW_BYTES: Final = 64
PAGE_BYTES: Final = MAX_CHILDREN * ROW_BYTES
# The states of a child: idle; running a job; running one whose seconds are its own timeout;
# assigned one that has not begun.
IDLE, RUNNING, RUNNING_TIMED, ASSIGNED = range(4)


class ChildLimits(NamedTuple):
    """How many seconds from `since` and how many bytes of memory a child may use.

    0 means no limit.
    """

    since: float
    seconds: float
    memory: int
    state: int

    @property
    def began(self) -> float:
        """When the job began, or 0 if it has not begun."""
        return 0.0 if self.state == ASSIGNED else self.since

    def is_over_time(self, now: float) -> bool:
        return self.seconds > 0 and now > self.since + self.seconds


class LimitsPage:
    """A page with one row for each child."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def begin(self, row: int, limits: ChildLimits) -> None:
        """Record that the child's job has begun, with the limits of the job."""
        _ROW_FORMAT.pack_into(self._page, row * ROW_BYTES, *limits)

    def expect_start(self, row: int, seconds: float) -> None:
        """Give the child these seconds to begin the job that it was assigned."""
        self.begin(row, ChildLimits(time.monotonic(), seconds, 0, ASSIGNED))

    def close(self) -> None:
        self._page.close()

    def end(self, row: int) -> None:
        """Record that the child is idle."""
        _ROW_FORMAT.pack_into(self._page, row * ROW_BYTES, 0.0, 0.0, 0, IDLE)

    def read(self, row: int) -> ChildLimits | None:
        """Return the child's limits, or None while it is idle or its row is being written."""
        entry = _ROW_FORMAT.unpack_from(self._page, row * ROW_BYTES)
        if entry != _ROW_FORMAT.unpack_from(self._page, row * ROW_BYTES):
            return None  # It is being written at this moment.
        return None if entry[-1] == IDLE else ChildLimits(*entry)

    def began(self, row: int) -> float:
        """Return when the child's job began, or 0 if the child has no job or has not begun it."""
        limits = self.read(row)
        return 0.0 if limits is None else limits.began


def create_limits_page() -> tuple[int, LimitsPage]:
    """Create an empty page. Return the file behind it, which other processes can map."""
    with open_scratch_file() as file:
        file.truncate(PAGE_BYTES)
        return os.dup(file.fileno()), open_limits_page(file.fileno())


def open_limits_page(file: int) -> LimitsPage:
    """Map the page in a file."""
    return LimitsPage(mmap.mmap(file, PAGE_BYTES))
