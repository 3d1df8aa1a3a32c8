"""The prefetch buffer, without a database: which job starts next."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.worker.claim.prefetch import PrefetchBuffer

pytestmark = pytest.mark.any_pooler


def jobs(*lanes: str) -> list[Any]:
    """Return claimed jobs as the buffer needs them; `ab` is a job of a and one of b."""
    return [SimpleNamespace(id=n, row={"lane": lane}) for n, lane in enumerate(lanes)]


def lanes_of_popped(buffer: PrefetchBuffer, count: int = 100) -> str:
    taken = (buffer.pop() for _ in range(min(count, len(buffer))))
    return "".join(job.row["lane"] for job in taken if job is not None)


def buffer_of(lanes: str, **options: Any) -> PrefetchBuffer:
    buffer = PrefetchBuffer(**options)
    buffer.extend(jobs(*lanes), lanes[0] if len(set(lanes)) == 1 else None)
    return buffer


def test_jobs_of_one_lane_are_a_row() -> None:
    buffer = PrefetchBuffer()
    row = jobs("", "", "")
    buffer.extend(row, "")
    assert ([buffer.pop() for _ in range(4)], len(buffer)) == ([*row, None], 0)


def test_lanes_take_turns_whatever_was_claimed_first() -> None:
    assert lanes_of_popped(buffer_of("aaabbc")) == "abcaba"


def test_prefetch_alternates_with_a_lane_that_joins_later() -> None:
    buffer = buffer_of("aaaaaa")
    assert lanes_of_popped(buffer, 2) == "aa"
    buffer.extend(jobs("b"), "b")
    assert lanes_of_popped(buffer) == "baaaa"


def test_a_lane_is_given_as_many_in_a_row_as_its_weight() -> None:
    buffer = buffer_of("aaaaaabbbb", weight=lambda lane: {"a": 3}.get(lane, 1))
    assert lanes_of_popped(buffer) == "aaabaaabbb"


def test_limited_lane_keeps_the_weight_of_its_tenant() -> None:
    buffer = PrefetchBuffer(weight=lambda lane: {"a": 2}.get(lane, 1))
    buffer.extend(jobs(*["a\x1fx"] * 4, *["b"] * 2), None)
    lanes = [job.row["lane"] for job in iter(buffer.pop, None)]
    assert [lane[0] for lane in lanes] == ["a", "a", "b", "a", "a", "b"]


def test_what_may_not_start_is_passed_by_and_keeps_its_place() -> None:
    barred = {"a"}
    buffer = buffer_of("aabb", may_start=lambda attempt: attempt.row["lane"] not in barred)
    buffer.is_limited = True
    assert (lanes_of_popped(buffer), buffer.is_blocked, len(buffer)) == ("bb", True, 2)
    barred.clear()
    assert (lanes_of_popped(buffer), buffer.is_blocked) == ("aa", False)


def test_prefetch_checks_every_start_once_limits_exist() -> None:
    buffer = buffer_of("aaa", may_start=lambda attempt: False)
    assert lanes_of_popped(buffer, 1) == "a"
    buffer.is_limited = True
    assert (lanes_of_popped(buffer), len(buffer)) == ("", 2)
    buffer.is_limited = False
    assert lanes_of_popped(buffer) == "aa"


def test_what_holds_up_its_lane_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = buffer_of("aab", may_start=lambda attempt: attempt.row["lane"] == "b")
    buffer.is_limited = True
    assert lanes_of_popped(buffer) == "b"
    [holding] = buffer.pop_newly_blocked()
    assert (holding.row["lane"], buffer.pop_newly_blocked()) == ("a", [])
    buffer.pop()
    assert buffer.pop_newly_blocked() == []
    buffer.remove(holding)
    buffer.pop()
    [following] = buffer.pop_newly_blocked()
    assert following is not holding
    buffer.unblock_all()
    buffer.pop()
    assert buffer.pop_newly_blocked() == [following]


def test_a_lane_that_is_held_for_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    buffer = buffer_of("aab", may_start=lambda attempt: attempt.row["lane"] == "b")
    buffer.is_limited = True
    lanes_of_popped(buffer)
    assert buffer.list_long_blocked(1.0) == []
    now += 1.5
    assert buffer.list_long_blocked(1.0) == ["a"]
    assert [job.row["lane"] for job in buffer.jobs_of_lane("a")] == ["a", "a"]
    now += 0.1
    assert buffer.list_long_blocked(1.0) == [], "looked at now and then"


@pytest.mark.parametrize("lanes", ["aaa", "aab"])
def test_one_is_removed_wherever_it_stands(lanes: str) -> None:
    buffer = buffer_of(lanes)
    for job in list(buffer):
        assert job.row["lane"] in buffer
        buffer.remove(job)
    assert (len(buffer), buffer.pop(), "a" in buffer) == (0, None, False)


@pytest.mark.parametrize("lanes", ["aaa", "aab"])
def test_all_are_given_up_and_it_begins_anew(lanes: str) -> None:
    buffer = buffer_of(lanes)
    buffer.pop()
    assert (len(buffer.clear()), len(buffer), buffer.pop()) == (2, 0, None)
    buffer.extend(jobs(*"cd"), None)
    assert lanes_of_popped(buffer) == "cd"


def test_the_heads_are_the_next_of_each_lane() -> None:
    assert [job.row["lane"] for job in buffer_of("aab").first_jobs()] == ["a", "b"]
    assert [job.row["lane"] for job in buffer_of("aaa").first_jobs()] == ["a"]
