"""Items that wait for their call: in groups, by when they are due."""

from types import SimpleNamespace
from typing import Any

from penstock import Batch, Item, task
from penstock.worker.claim.micro_batch import (
    MIN_ITEM_LIMIT,
    GatheredJob,
    ItemGroup,
    MicroBatchGroups,
)


def entry(number: int) -> GatheredJob:
    attempt: Any = SimpleNamespace(id=number)
    return GatheredJob(attempt, number)


@task(batch=Batch(size=3, linger=1.0))
async def handler(items: list[Item[int]]) -> list[None]:
    return [None for _ in items]


def values(group: ItemGroup | None) -> list[int]:
    return [] if group is None else [entry.value for entry in group.entries]


def groups_of(*places: tuple[str, float], slots: int = 2) -> MicroBatchGroups:
    """Items by their key and the time at which they came."""
    groups = MicroBatchGroups(slots)
    for number, (key, now) in enumerate(places):
        groups.add(handler, key, entry(number), now)
    return groups


def test_a_group_is_due_when_its_first_item_has_waited() -> None:
    groups = groups_of(("a", 10.0), ("a", 10.9))
    assert (groups.next_due, len(groups), groups.room) == (11.0, 2, 1)
    assert groups.next(10.99) is None
    assert values(groups.next(11.0)) == [0, 1]
    assert (groups.next_due, len(groups), groups.room) == (None, 0, 0)


def test_full_group_is_due_at_once() -> None:
    groups = groups_of(("a", 10.0), ("a", 10.1), ("a", 10.2), ("a", 10.3))
    assert (groups.full_groups, groups.room) == (1, 2)
    assert values(groups.next(10.2)) == [0, 1, 2]
    assert groups.full_groups == 0
    assert groups.next(10.3) is None
    assert values(groups.next(11.3)) == [3]


def test_longest_waiting_group_precedes_full_ones() -> None:
    """However many calls one key could fill, another's few items have their turn."""
    groups = groups_of(("few", 10.0), ("many", 11.5), ("many", 11.5), ("many", 11.5))
    assert values(groups.next(12.0)) == [0]
    assert values(groups.next(12.0)) == [1, 2, 3]


def test_slots_are_kept_for_the_groups_that_are_due() -> None:
    places = [("a", 10.0), ("b", 12.0), ("c", 10.5), ("d", 13.0), ("e", 10.9), ("b", 12.0)]
    groups = groups_of(*places)
    groups.expected_items = 0  # What came last shares no calls.
    due = [groups.slots_due(now, 9) for now in (10.9, 11.0, 12.0, 13.0, 14.0)]
    assert due == [0, 1, 3, 4, 5]
    assert groups.slots_due(14.0, 2) == 2
    groups.remove(next(iter(groups)))
    assert groups.slots_due(14.0, 9) == 4


def test_jobs_that_start_beside_many_groups_do_not_look_at_each() -> None:
    looks = 0

    class Counted(float):
        def __le__(self, other: float) -> bool:
            nonlocal looks
            looks += 1
            return float.__le__(self, other)

    groups = groups_of(*((str(number), Counted(number)) for number in range(1000)))
    groups.expected_items = 0
    groups._due = [(Counted(due), place, group) for due, place, group in groups._due]
    assert groups.slots_due(3.0, 9) == 3
    assert groups.slots_due(2000.0, 5) == 5
    assert looks < 30


def test_one_can_be_taken_out_and_an_empty_group_is_gone() -> None:
    groups = groups_of(("a", 10.0), ("a", 10.0), ("b", 10.0))
    first, second, third = groups
    groups.remove(third)
    assert (len(groups), groups.room) == (2, 1)
    groups.remove(first)
    assert (list(groups), groups.room) == ([second], 2)
    assert values(groups.next(11.0)) == [1]
    assert groups.next(99.0) is None


def test_one_can_be_taken_out_of_a_full_group() -> None:
    groups = groups_of(("a", 10.0), ("a", 10.0), ("a", 10.0))
    for job in tuple(groups):
        groups.remove(job)
    assert (len(groups), groups.full_groups, groups.room) == (0, 0, 0)


def test_all_can_be_given_up() -> None:
    groups = groups_of(("a", 10.0), ("a", 10.0), ("a", 10.0), ("b", 10.0))
    assert len(groups.clear()) == 4
    assert (len(groups), groups.full_groups, groups.room, groups.next_due) == (0, 0, 0, None)


def test_with_many_keys_no_more_is_asked_for_than_a_bound() -> None:
    groups = groups_of(*((str(number), 10.0) for number in range(MIN_ITEM_LIMIT)))
    assert groups.is_full
    assert groups.room == 0
