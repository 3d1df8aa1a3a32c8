"""The items of one queue that wait for the call which they will share."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from penstock.store import ClaimedJob
from penstock.tasks import Task

# With a key there are many groups. So many items are gathered for them at most, or two calls' worth
# for each slot if that is more: what waits here waits for no other worker.
MOST = 1000
GONE = -1


class Entry(NamedTuple):
    """A job whose turn has come, and what its handler will get."""

    job: ClaimedJob
    value: Any


def group_key(task: Task[..., Any], job: ClaimedJob, value: Any) -> Hashable:
    """What items must have in common to share a call; raises what a user's function raises.

    Items that have failed before do not share a call with items that have not, so a bad item does
    not fail fresh ones.
    """
    assert task.settings.batch is not None
    had_trouble = job.failures > 0
    match task.settings.batch.key:
        case None:
            key: Hashable = None
        case "tenant" | "lane" as column:
            key = job.row[column]
        case function:
            key = function(value)
            _check_key(task, key)
    return task.name, had_trouble, key


def _check_key(task: Task[..., Any], key: object) -> None:
    try:
        hash(key)
    except TypeError as error:
        raise TypeError(
            f"batch.key of {task.name} made a {type(key).__name__}, by which items cannot be put "
            f"into groups ({error}): it must be hashable, as text, a number or a tuple of them is."
        ) from error


class Group:
    """Items that will share a call."""

    __slots__ = ("due", "entries", "key", "place", "task")

    def __init__(self, task: Task[..., Any], key: Hashable, due: float) -> None:
        self.task = task
        self.key = key
        # When the call begins if a slot is free, full or not.
        self.due = due
        self.entries: list[Entry] = []
        self.place = GONE

    @property
    def size(self) -> int:
        assert self.task.settings.batch is not None
        return self.task.settings.batch.size


class Gathering:
    """Groups of items in the order in which they are due.

    They hold no slot: a call takes one when it begins. They have had their turn between lanes and
    count against their limits, as jobs that run do.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._open: dict[Hashable, Group] = {}
        self._due: list[tuple[float, int, Group]] = []
        self._order = count()
        self._widest = 0
        self._free = 0
        self.size = 0
        # How many groups are full and only wait for a slot.
        self.full = 0
        # How many items the next call may have, if what came last shares calls: so many are asked
        # for at once, or the first claim would bring one, and a slow second one would be too late.
        self.expected = 0
        self.timer: TimerHandle | None = None

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[ClaimedJob]:
        for group in self._groups():
            for entry in group.entries:
                yield entry.job

    def _groups(self) -> list[Group]:
        return [group for _, place, group in self._due if place == group.place]

    @property
    def room(self) -> int:
        """How many more items would have a place in the groups that are not full."""
        return max(0, min(self._free, self._most - self.size))

    @property
    def _most(self) -> int:
        return max(MOST, 2 * self._slots * self._widest)

    def slots_due(self, now: float, most: int) -> int:
        """How many slots its groups should have before anything else starts, up to so many.

        Those that are only due wait a little longer for the items at hand, which make them larger,
        as long as what is at hand are items and not jobs that would take the slots.
        """
        if self.expected:
            return self.full
        return self._count_due(now, most)

    def _count_due(self, now: float, most: int) -> int:
        """Looks only at those that are due: what is below one in the heap is due no sooner."""
        places, found = [0], 0
        while places and found < most:
            place = places.pop()
            if place < len(self._due) and self._due[place][0] <= now:
                _, number, group = self._due[place]
                found += number == group.place
                places += (2 * place + 1, 2 * place + 2)
        return found

    @property
    def is_crowded(self) -> bool:
        return self.size >= self._most

    def add(self, task: Task[..., Any], key: Hashable, entry: Entry, now: float) -> None:
        """Put an item into the group of its key, which begins with it if there is none."""
        group = self._open.get(key)
        if group is None:
            group = self._begin(task, key, now)
        group.entries.append(entry)
        self.expected = group.size
        self.size += 1
        self._free -= 1
        if len(group.entries) >= group.size:
            del self._open[key]
            self.full += 1
            group.due = min(now, group.due)
            self._line_up(group)

    def _begin(self, task: Task[..., Any], key: Hashable, now: float) -> Group:
        assert task.settings.batch is not None
        group = self._open[key] = Group(task, key, now + task.settings.batch.seconds)
        self._widest = max(self._widest, group.size)
        self._free += group.size
        self._line_up(group)
        return group

    def _line_up(self, group: Group) -> None:
        """Give a group its place by when it is due; one that it had before counts no more."""
        group.place = next(self._order)
        heappush(self._due, (group.due, group.place, group))

    def next(self, now: float) -> Group | None:
        """Take out the group that has been due for longest; None if none is."""
        due = self.next_due
        if due is None or due > now:
            return None
        group = heappop(self._due)[2]
        self._forget(group)
        return group

    @property
    def next_due(self) -> float | None:
        """When the next group is due."""
        while self._due:
            due, place, group = self._due[0]
            if place == group.place:
                return due
            heappop(self._due)
        return None

    def _forget(self, group: Group) -> None:
        group.place = GONE
        self.size -= len(group.entries)
        if self._open.get(group.key) is group:
            del self._open[group.key]
            self._free -= group.size - len(group.entries)
        else:
            self.full -= 1

    def remove(self, job: ClaimedJob) -> None:
        """An item is not wanted any more; the others of its group go on."""
        for group in self._groups():
            for entry in group.entries:
                if entry.job is job:
                    self._remove(group, entry)
                    return

    def _remove(self, group: Group, entry: Entry) -> None:
        group.entries.remove(entry)
        self.size -= 1
        if self._open.get(group.key) is group:
            self._free += 1
        if not group.entries:
            self._forget(group)

    def clear(self) -> list[ClaimedJob]:
        """Give up all of them."""
        held = list(self)
        self._open.clear()
        self._due.clear()
        self.size = self._free = self.full = 0
        return held
