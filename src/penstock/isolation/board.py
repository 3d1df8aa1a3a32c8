"""A page of memory that a warden shares with its children: what each is allowed at the moment.

A child writes when it begins and ends a job; nobody has to be told. The clock is the system's
monotonic one, the same in all processes.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import Final, NamedTuple

from penstock.isolation.scratch import scratch

MOST: Final = 1024
_ENTRY: Final = struct.Struct("=ddqq")
ROW: Final = 64
SIZE: Final = MOST * ROW
IDLE, BUSY, TIMEOUT = range(3)


class Allowed(NamedTuple):
    """Seconds since a moment, and bytes; 0 is no limit. `is_timeout`: the seconds are those that
    a job was asked to take, and its grace."""

    began: float
    seconds: float
    memory: int
    is_timeout: bool

    def is_late(self, now: float) -> bool:
        return self.seconds > 0 and now > self.began + self.seconds


class Board:
    """One row a child."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def begin(self, row: int, allowed: Allowed) -> None:
        began, seconds, memory, is_timeout = allowed
        state = TIMEOUT if is_timeout else BUSY
        _ENTRY.pack_into(self._page, row * ROW, began, seconds, memory, state)

    def end(self, row: int) -> None:
        _ENTRY.pack_into(self._page, row * ROW, 0.0, 0.0, 0, IDLE)

    def read(self, row: int) -> Allowed | None:
        """What the child is allowed; None while it is idle."""
        entry = _ENTRY.unpack_from(self._page, row * ROW)
        if entry != _ENTRY.unpack_from(self._page, row * ROW):
            return None  # It is being written at this moment.
        began, seconds, memory, state = entry
        return None if state == IDLE else Allowed(began, seconds, memory, state == TIMEOUT)

    def began(self, row: int) -> float:
        """When it began what it does; 0 while it is idle."""
        allowed = self.read(row)
        return 0.0 if allowed is None else allowed.began


def new_board() -> tuple[int, Board]:
    """An empty board and the file behind it, which others can map."""
    with scratch() as file:
        file.truncate(SIZE)
        return os.dup(file.fileno()), board_of(file.fileno())


def board_of(file: int) -> Board:
    """The board in a file."""
    return Board(mmap.mmap(file, SIZE))
