"""Taking turns, without a database."""

from itertools import islice

import pytest

from penstock.worker.claim.lanes import RoundRobin

pytestmark = pytest.mark.any_pooler


def of(*names: str) -> RoundRobin:
    turns = RoundRobin()
    for name in names:
        turns.join(name)
    return turns


def first(turns: RoundRobin, count: int) -> list[str]:
    return [turns.next() for _ in range(count)]


def test_everyone_has_a_turn_in_each_round() -> None:
    assert first(of("a", "b", "c"), 7) == ["a", "b", "c", "a", "b", "c", "a"]


def test_newcomer_queues_behind_those_still_waiting() -> None:
    turns = of("a", "b", "c")
    assert first(turns, 1) == ["a"]
    turns.join("new")
    assert first(turns, 7) == ["b", "c", "new", "a", "b", "c", "new"]


def test_one_who_joins_while_only_one_is_there_is_next() -> None:
    turns = of("big")
    first(turns, 100)
    turns.join("small")
    assert first(turns, 2) == ["small", "big"]


def test_to_join_twice_brings_no_second_turn() -> None:
    turns = of("a", "b")
    turns.join("a")
    turns.next()
    turns.join("a")
    assert first(turns, 3) == ["b", "a", "b"]


def test_one_who_leaves_has_no_turn_any_more() -> None:
    turns = of("a", "b", "c")
    turns.next()
    turns.leave("a")
    turns.leave("b")
    turns.leave("never there")
    assert (first(turns, 2), len(turns), "a" in turns) == (["c", "c"], 1, False)


def test_a_turn_that_came_to_nothing_is_given_again_at_once() -> None:
    turns = of("a", "b", "c")
    assert first(turns, 2) == ["a", "b"]
    turns.again("b")
    assert first(turns, 4) == ["b", "c", "a", "b"]


def test_one_who_has_left_gets_no_turn_again() -> None:
    turns = of("a", "b")
    turns.leave(turns.next())
    turns.again("a")
    assert first(turns, 2) == ["b", "b"]


def test_who_waits_in_this_round_is_counted_and_listed_first() -> None:
    turns = of("a", "b", "c")
    turns.next()
    assert (turns.waiting, list(turns)) == (2, ["b", "c", "a"])
    assert list(islice(turns, turns.waiting)) == ["b", "c"]


def test_rest_of_a_turn_is_kept_for_the_same_lane_once() -> None:
    turns = of("a", "b")
    turns.leave_off("a", 2)
    assert turns.rest("a") == 2
    assert turns.rest("a") == 0
    turns.leave_off("a", 2)
    assert turns.rest("b") == 0


def test_lane_that_rejoins_often_does_not_starve_others() -> None:
    """A lane whose every job is claimed at once joins anew with each job."""
    turns = of("steady")
    seen = []
    for _ in range(10):
        turns.join("restless")
        for name in first(turns, 2):
            seen.append(name)
            if name == "restless":
                turns.leave(name)
    assert seen.count("steady") == 10
