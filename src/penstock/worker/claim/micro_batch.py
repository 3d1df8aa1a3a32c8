"""Groups of items that wait for the call of their micro-batched task."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from penstock.store import ClaimedJob
from penstock.tasks import Task

# With a key there are many groups. A queue collects this many items at most, or two calls' worth
# for each slot if that is more: no other worker can run what waits here.
MIN_ITEM_LIMIT = 1000
NOT_SCHEDULED = -1


class GatheredJob(NamedTuple):
    """A claimed job, and the value that its handler will get."""

    job: ClaimedJob
    value: Any


def group_key(task: Task[..., Any], job: ClaimedJob, value: Any) -> Hashable:
    """Return the key that items must have in common to share a call.

    A user's key function may raise anything. Items that have failed before get another key than
    fresh items, so a bad item does not fail fresh ones.
    """
    assert task.settings.batch is not None
    has_failed = job.failures > 0
    match task.settings.batch.key:
        case None:
            key: Hashable = None
        case "tenant" | "lane" as column:
            key = job.row[column]
        case function:
            key = function(value)
            _check_key(task, key)
    return task.name, has_failed, key


def _check_key(task: Task[..., Any], key: object) -> None:
    try:
        hash(key)
    except TypeError as error:
        raise TypeError(
            f"batch.key of {task.name} returned a {type(key).__name__}, which cannot group items "
            f"({error}): it must be hashable, such as text, a number or a tuple of these."
        ) from error


class ItemGroup:
    """Items that will share a call."""

    __slots__ = ("due", "entries", "key", "number", "task")

    def __init__(self, task: Task[..., Any], key: Hashable, due: float) -> None:
        self.task = task
        self.key = key
        # When the call begins if a slot is free, whether or not the group is full.
        self.due = due
        self.entries: list[GatheredJob] = []
        self.number = NOT_SCHEDULED

    @property
    def size(self) -> int:
        assert self.task.settings.batch is not None
        return self.task.settings.batch.size


class MicroBatchGroups:
    """The groups of one queue, in the order in which they are due.

    A group holds no slot, because its call takes one when it begins. The items have used their
    lane's turn, and count against their limits as running jobs do.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._open: dict[Hashable, ItemGroup] = {}
        self._due: list[tuple[float, int, ItemGroup]] = []
        self._numbers = count()
        self._max_group_size = 0
        self._free_places = 0
        self.size = 0
        # How many groups are full and wait only for a slot.
        self.full_groups = 0
        # How many items the next call may have, if the last job that came shares calls. A claim
        # asks for this many at once: otherwise the first would bring one, and a slow second one
        # would be too late.
        self.expected_items = 0
        self.timer: TimerHandle | None = None

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[ClaimedJob]:
        for group in self._groups():
            for entry in group.entries:
                yield entry.job

    def _groups(self) -> list[ItemGroup]:
        return [group for _, number, group in self._due if number == group.number]

    @property
    def room(self) -> int:
        """How many more items fit into the groups that are not full."""
        return max(0, min(self._free_places, self._max_items - self.size))

    @property
    def _max_items(self) -> int:
        return max(MIN_ITEM_LIMIT, 2 * self._slots * self._max_group_size)

    def slots_due(self, now: float, most: int) -> int:
        """Return how many slots to keep for groups before anything else starts, up to `most`.

        Groups that are due but not full wait a little longer while more items are prefetched. They
        do not wait while other jobs are prefetched, because these would take the slots.
        """
        if self.expected_items:
            return self.full_groups
        return self._count_due(now, most)

    def _count_due(self, now: float, most: int) -> int:
        """Count the groups that are due, up to `most`.

        No entry of the heap is due before its parent.
        """
        places, due_count = [0], 0
        while places and due_count < most:
            place = places.pop()
            if place < len(self._due) and self._due[place][0] <= now:
                _, number, group = self._due[place]
                due_count += number == group.number
                places += (2 * place + 1, 2 * place + 2)
        return due_count

    @property
    def is_full(self) -> bool:
        return self.size >= self._max_items

    def add(self, task: Task[..., Any], key: Hashable, entry: GatheredJob, now: float) -> None:
        """Put an item into the group of its key, and begin that group if there is none."""
        group = self._open.get(key)
        if group is None:
            group = self._begin(task, key, now)
        group.entries.append(entry)
        self.expected_items = group.size
        self.size += 1
        self._free_places -= 1
        if len(group.entries) >= group.size:
            del self._open[key]
            self.full_groups += 1
            group.due = min(now, group.due)
            self._schedule(group)

    def _begin(self, task: Task[..., Any], key: Hashable, now: float) -> ItemGroup:
        assert task.settings.batch is not None
        group = self._open[key] = ItemGroup(task, key, now + task.settings.batch.seconds)
        self._max_group_size = max(self._max_group_size, group.size)
        self._free_places += group.size
        self._schedule(group)
        return group

    def _schedule(self, group: ItemGroup) -> None:
        """Put a group into the heap by its due time. Its earlier entry no longer counts."""
        group.number = next(self._numbers)
        heappush(self._due, (group.due, group.number, group))

    def next(self, now: float) -> ItemGroup | None:
        """Remove and return the group that has been due for longest, or None if no group is due."""
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
            due, number, group = self._due[0]
            if number == group.number:
                return due
            heappop(self._due)
        return None

    def _forget(self, group: ItemGroup) -> None:
        group.number = NOT_SCHEDULED
        self.size -= len(group.entries)
        if self._open.get(group.key) is group:
            del self._open[group.key]
            self._free_places -= group.size - len(group.entries)
        else:
            self.full_groups -= 1

    def remove(self, job: ClaimedJob) -> None:
        """Remove an item; the others of its group stay."""
        for group in self._groups():
            for entry in group.entries:
                if entry.job is job:
                    self._remove(group, entry)
                    return

    def _remove(self, group: ItemGroup, entry: GatheredJob) -> None:
        group.entries.remove(entry)
        self.size -= 1
        if self._open.get(group.key) is group:
            self._free_places += 1
        if not group.entries:
            self._forget(group)

    def clear(self) -> list[ClaimedJob]:
        """Remove and return all items."""
        jobs = list(self)
        self._open.clear()
        self._due.clear()
        self.size = self._free_places = self.full_groups = 0
        return jobs
