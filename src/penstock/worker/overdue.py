"""Outcomes that have waited for too long to be written, whatever keeps them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from penstock.store import Settlement

# How often the outcomes are looked at within the time after which they are overdue.
LOOKS = 8


class Overdue:
    """Looks at the unwritten outcomes at regular times, and tells of those that are overdue.

    One settle may take minutes, or fail and be tried in parts for as long, so what is told at its
    end alone comes too late.
    """

    def __init__(
        self,
        after: float,
        unwritten: Callable[[], Sequence[Settlement]],
        tell: Callable[[], None],
    ) -> None:
        self._after = after
        self._pause = after / LOOKS
        self._unwritten = unwritten
        self._tell = tell
        self._ages: dict[tuple[int, UUID], float] = {}
        self._looked = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """There is an outcome to write: look until there is none."""
        if self._timer is None:
            self._looked = time.monotonic()
            self._look_later()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def among(self, rows: Sequence[Settlement]) -> list[Settlement]:
        """Those that are overdue."""
        return [one for one in rows if self.age(one) >= self._after]

    def age(self, row: Settlement) -> float:
        """For how many seconds an outcome has been seen waiting."""
        return self._ages.get(key(row), 0.0)

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        # While this whole process stood still, no outcome could be written.
        passed = min(now - self._looked, 2 * self._pause)
        self._looked = now
        rows = self._unwritten()
        self._ages = {key(one): self._ages.get(key(one), -passed) + passed for one in rows}
        self._timer = None
        if not rows:
            return
        self._look_later()
        if self.among(rows):
            self._tell()


def key(row: Settlement) -> tuple[int, UUID]:
    """What tells an outcome from all others: one job may have several attempts."""
    return row.id, row.token
