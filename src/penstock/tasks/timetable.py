"""The schedules that an app's code declares, by name."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import Misuse
from penstock.tasks.schedule import Declaration


class Timetable:
    """What the code says is to be enqueued, and when. A worker writes it at its start."""

    def __init__(self) -> None:
        self._declared: dict[str, Declaration] = {}

    def add(self, declared: Declaration) -> None:
        if declared.name in self._declared:
            raise Misuse(
                f"Two schedules are called {declared.name!r}: give one another name.", "schedule"
            )
        self._declared[declared.name] = declared

    def names(self) -> list[str]:
        """The names of all schedules in order."""
        return sorted(self._declared)

    def __iter__(self) -> Iterator[Declaration]:
        return iter(self._declared.values())

    def __len__(self) -> int:
        return len(self._declared)
