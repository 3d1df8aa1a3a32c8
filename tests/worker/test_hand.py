"""The jobs at hand, without a database: who is given out next."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.worker.claim.prefetch import PrefetchBuffer

pytestmark = pytest.mark.any_pooler


def jobs(*lanes: str) -> list[Any]:
    """Claimed jobs, as far as a hand looks at them; `ab` is a job of a and one of b."""
    return [SimpleNamespace(id=n, row={"lane": lane}) for n, lane in enumerate(lanes)]


def given(hand: PrefetchBuffer, count: int = 100) -> str:
    taken = (hand.take() for _ in range(min(count, len(hand))))
    return "".join(job.row["lane"] for job in taken if job is not None)


def hand_of(lanes: str, **options: Any) -> PrefetchBuffer:
    hand = PrefetchBuffer(**options)
    hand.extend(jobs(*lanes), lanes[0] if len(set(lanes)) == 1 else None)
    return hand


def test_jobs_of_one_lane_are_a_row() -> None:
    hand = PrefetchBuffer()
    row = jobs("", "", "")
    hand.extend(row, "")
    assert ([hand.take() for _ in range(4)], len(hand)) == ([*row, None], 0)


def test_lanes_take_turns_whatever_was_claimed_first() -> None:
    assert given(hand_of("aaabbc")) == "abcaba"


def test_prefetch_alternates_with_a_lane_that_joins_later() -> None:
    hand = hand_of("aaaaaa")
    assert given(hand, 2) == "aa"
    hand.extend(jobs("b"), "b")
    assert given(hand) == "baaaa"


def test_a_lane_is_given_as_many_in_a_row_as_its_weight() -> None:
    hand = hand_of("aaaaaabbbb", weight=lambda turn: {"a": 3}.get(turn, 1))
    assert given(hand) == "aaabaaabbb"


def test_limited_lane_keeps_the_weight_of_its_tenant() -> None:
    hand = PrefetchBuffer(weight=lambda turn: {"a": 2}.get(turn, 1))
    hand.extend(jobs(*["a\x1fx"] * 4, *["b"] * 2), None)
    lanes = [job.row["lane"] for job in iter(hand.take, None)]
    assert [lane[0] for lane in lanes] == ["a", "a", "b", "a", "a", "b"]


def test_what_may_not_start_is_passed_by_and_keeps_its_place() -> None:
    barred = {"a"}
    hand = hand_of("aabb", may_start=lambda attempt: attempt.row["lane"] not in barred)
    hand.is_limited = True
    assert (given(hand), hand.is_held, len(hand)) == ("bb", True, 2)
    barred.clear()
    assert (given(hand), hand.is_held) == ("aa", False)


def test_prefetch_checks_every_start_once_limits_exist() -> None:
    hand = hand_of("aaa", may_start=lambda attempt: False)
    assert given(hand, 1) == "a"
    hand.is_limited = True
    assert (given(hand), len(hand)) == ("", 2)
    hand.is_limited = False
    assert given(hand) == "aa"


def test_what_holds_up_its_lane_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = hand_of("aab", may_start=lambda attempt: attempt.row["lane"] == "b")
    hand.is_limited = True
    assert given(hand) == "b"
    [holding] = hand.newly_held()
    assert (holding.row["lane"], hand.newly_held()) == ("a", [])
    hand.take()
    assert hand.newly_held() == []
    hand.remove(holding)
    hand.take()
    [following] = hand.newly_held()
    assert following is not holding
    hand.hold_none()
    hand.take()
    assert hand.newly_held() == [following]


def test_a_lane_that_is_held_for_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    hand = hand_of("aab", may_start=lambda attempt: attempt.row["lane"] == "b")
    hand.is_limited = True
    given(hand)
    assert hand.long_held(1.0) == []
    now += 1.5
    assert hand.long_held(1.0) == ["a"]
    assert [job.row["lane"] for job in hand.of_lane("a")] == ["a", "a"]
    now += 0.1
    assert hand.long_held(1.0) == [], "looked at now and then"


@pytest.mark.parametrize("lanes", ["aaa", "aab"])
def test_one_is_removed_wherever_it_stands(lanes: str) -> None:
    hand = hand_of(lanes)
    for job in list(hand):
        assert job.row["lane"] in hand
        hand.remove(job)
    assert (len(hand), hand.take(), "a" in hand) == (0, None, False)


@pytest.mark.parametrize("lanes", ["aaa", "aab"])
def test_all_are_given_up_and_it_begins_anew(lanes: str) -> None:
    hand = hand_of(lanes)
    hand.take()
    assert (len(hand.clear()), len(hand), hand.take()) == (2, 0, None)
    hand.extend(jobs(*"cd"), None)
    assert given(hand) == "cd"


def test_the_heads_are_the_next_of_each_lane() -> None:
    assert [job.row["lane"] for job in hand_of("aab").heads()] == ["a", "b"]
    assert [job.row["lane"] for job in hand_of("aaa").heads()] == ["a"]
