"""Taking turns, without a database."""

from itertools import islice

import pytest

from penstock.worker.claim.lanes import RoundRobin

pytestmark = pytest.mark.any_pooler


def of(*names: str) -> RoundRobin:
    rotation = RoundRobin()
    for name in names:
        rotation.add(name)
    return rotation


def first(rotation: RoundRobin, count: int) -> list[str]:
    return [rotation.next() for _ in range(count)]


def test_everyone_has_a_turn_in_each_round() -> None:
    assert first(of("a", "b", "c"), 7) == ["a", "b", "c", "a", "b", "c", "a"]


def test_newcomer_queues_behind_those_still_waiting() -> None:
    rotation = of("a", "b", "c")
    assert first(rotation, 1) == ["a"]
    rotation.add("new")
    assert first(rotation, 7) == ["b", "c", "new", "a", "b", "c", "new"]


def test_one_who_joins_while_only_one_is_there_is_next() -> None:
    rotation = of("big")
    first(rotation, 100)
    rotation.add("small")
    assert first(rotation, 2) == ["small", "big"]


def test_to_join_twice_brings_no_second_turn() -> None:
    rotation = of("a", "b")
    rotation.add("a")
    rotation.next()
    rotation.add("a")
    assert first(rotation, 3) == ["b", "a", "b"]


def test_one_who_leaves_has_no_turn_any_more() -> None:
    rotation = of("a", "b", "c")
    rotation.next()
    rotation.remove("a")
    rotation.remove("b")
    rotation.remove("never there")
    assert (first(rotation, 2), len(rotation), "a" in rotation) == (["c", "c"], 1, False)


def test_a_turn_that_came_to_nothing_is_given_again_at_once() -> None:
    rotation = of("a", "b", "c")
    assert first(rotation, 2) == ["a", "b"]
    rotation.move_to_front("b")
    assert first(rotation, 4) == ["b", "c", "a", "b"]


def test_one_who_has_left_gets_no_turn_again() -> None:
    rotation = of("a", "b")
    rotation.remove(rotation.next())
    rotation.move_to_front("a")
    assert first(rotation, 2) == ["b", "b"]


def test_who_waits_in_this_round_is_counted_and_listed_first() -> None:
    rotation = of("a", "b", "c")
    rotation.next()
    assert (rotation.waiting, list(rotation)) == (2, ["b", "c", "a"])
    assert list(islice(rotation, rotation.waiting)) == ["b", "c"]


def test_rest_of_a_turn_is_kept_for_the_same_lane_once() -> None:
    rotation = of("a", "b")
    rotation.interrupt("a", 2)
    assert rotation.resume("a") == 2
    assert rotation.resume("a") == 0
    rotation.interrupt("a", 2)
    assert rotation.resume("b") == 0


def test_lane_that_rejoins_often_does_not_starve_others() -> None:
    """A lane whose every job is claimed at once joins anew with each job."""
    rotation = of("steady")
    seen = []
    for _ in range(10):
        rotation.add("restless")
        for name in first(rotation, 2):
            seen.append(name)
            if name == "restless":
                rotation.remove(name)
    assert seen.count("steady") == 10
