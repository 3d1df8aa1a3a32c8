"""Cursors, without a database: what is known when news, claims and scans cross."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.store import LaneCursor
from penstock.worker.claim.cursors import Cursors, PlannedTake

pytestmark = pytest.mark.any_pooler

T0 = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def attempt(id: int, seconds: float, lane: str = "", priority: int = 0) -> Any:
    """Return a claimed job as cursors need it."""
    row = {"lane": lane, "priority": priority, "ready_at": at(seconds)}
    return SimpleNamespace(id=id, row=row)


def sorted_cursors(cursors: Cursors, lane: str = "") -> list[LaneCursor]:
    return sorted(cursors.of_lane(lane), key=lambda cursor: -cursor.priority)


def claimed(cursors: Cursors, attempts: list[Any], limit: int, *, lane: str = "") -> None:
    """Advance all cursors of a lane after a claim of up to `limit` jobs."""
    cursors.advance(
        [PlannedTake(cursor, limit) for cursor in sorted_cursors(cursors, lane)], attempts, limit
    )


def test_nothing_is_known_at_first() -> None:
    assert not Cursors()
    assert not Cursors().of_lane("")


def test_lines_belong_to_who_takes_the_turn_with_them() -> None:
    cursors = Cursors()
    scanned = [
        LaneCursor("", 0, at(0), 1),
        LaneCursor("a", 7, at(0), 2),
        LaneCursor("a\x1fopenai", 0, at(0), 3),
    ]
    cursors.end_scan(scanned)
    assert list(cursors.rotation) == ["", "a"]
    assert sorted_cursors(cursors, "a") == scanned[1:]


def test_a_claim_goes_on_behind_its_last_job() -> None:
    cursors = Cursors()
    cursors.end_scan([LaneCursor("", 0, at(0), 1), LaneCursor("", 5, at(0), 2)])
    claimed(cursors, [attempt(20, 1, priority=5), attempt(10, 1), attempt(11, 2)], 3)
    assert sorted_cursors(cursors) == [LaneCursor("", 0, at(2), 11)]
    claimed(cursors, [attempt(12, 3)], 1)
    assert sorted_cursors(cursors) == [LaneCursor("", 0, at(3), 12)]


def test_cursor_that_gave_fewer_jobs_than_asked_is_dropped() -> None:
    cursors = Cursors()
    cursors.end_scan(
        [LaneCursor("a", 0, at(0), 1), LaneCursor("b", 0, at(0), 2), LaneCursor("c", 0, at(0), 3)]
    )
    takes = [PlannedTake(cursor, 2) for lane in "abc" for cursor in cursors.of_lane(lane)]
    some = [attempt(n, n, lane=lane) for n, lane in enumerate("aab", 10)]
    cursors.advance(takes, some, 6)
    assert list(cursors.rotation) == ["a"]
    assert sorted_cursors(cursors, "a") == [LaneCursor("a", 0, at(11), 11)]


def test_a_line_that_the_claim_did_not_come_to_stays_as_it_was() -> None:
    cursors = Cursors()
    cursors.end_scan([LaneCursor("", 5, at(0), 1), LaneCursor("", 0, at(0), 2)])
    claimed(cursors, [attempt(1, 0, priority=5)], 1)
    assert sorted_cursors(cursors) == [LaneCursor("", 5, at(0), 1), LaneCursor("", 0, at(0), 2)]


def test_a_turn_that_came_to_nothing_is_next_once_more() -> None:
    cursors = Cursors()
    cursors.end_scan(
        [LaneCursor("a", 5, at(0), 1), LaneCursor("a", 0, at(0), 2), LaneCursor("b", 0, at(0), 3)]
    )
    assert cursors.rotation.next() == "a"
    cursors.advance([PlannedTake(LaneCursor("a", 5, at(0), 1), 1)], [], 1)
    assert cursors.rotation.next() == "a"


def test_a_page_of_a_scan_leaves_the_other_lanes_alone() -> None:
    cursors = Cursors()
    cursors.end_scan([LaneCursor(lane, 0, at(0), 1) for lane in "abcd"])
    cursors.begin_scan()
    cursors.end_scan([LaneCursor("b", 0, at(1), 9)], "b", "c")
    assert sorted(cursors.rotation) == ["a", "b", "d"]


def test_cursors_ignore_tenants_the_worker_does_not_serve() -> None:
    cursors = Cursors(lambda lane: lane == "a")
    cursors.end_scan([LaneCursor("a", 0, at(0), 1), LaneCursor("b", 0, at(0), 2)])
    cursors.lower("c", 0, at(0))
    assert list(cursors.rotation) == ["a"]


def test_news_lowers_a_mark_and_never_raises_it() -> None:
    cursors = Cursors()
    cursors.end_scan([LaneCursor("", 0, at(10), 100)])
    cursors.lower("", 0, at(5))
    assert sorted_cursors(cursors) == [LaneCursor("", 0, at(5), 0)]
    cursors.lower("", 0, at(8))
    assert sorted_cursors(cursors) == [LaneCursor("", 0, at(5), 0)]


def test_news_of_a_new_line_adds_it() -> None:
    cursors = Cursors()
    cursors.lower("", 9, at(3))
    assert sorted_cursors(cursors) == [LaneCursor("", 9, at(3), 0)]


def test_news_before_the_first_scan_is_kept_but_not_acted_upon() -> None:
    """There may be a line of higher priority that it does not tell of."""
    cursors = Cursors()
    cursors.begin_scan()
    cursors.lower("", 0, at(3))
    assert not cursors
    cursors.end_scan([LaneCursor("", 9, at(5), 50)])
    assert cursors
    assert [cursor.priority for cursor in sorted_cursors(cursors)] == [9, 0]


def test_a_scan_replaces_what_was_known() -> None:
    """Exhausted cursors are dropped, and one that was too high is lowered."""
    cursors = Cursors()
    cursors.end_scan([LaneCursor("", 0, at(10), 100), LaneCursor("", 5, at(10), 101)])
    cursors.begin_scan()
    cursors.end_scan([LaneCursor("", 0, at(1), 1)])
    assert sorted_cursors(cursors) == [LaneCursor("", 0, at(1), 1)]


def test_news_during_a_scan_outlives_it() -> None:
    """The scan's snapshot is older than the news: what it does not see may well be there."""
    cursors = Cursors()
    cursors.begin_scan()
    cursors.lower("", 3, at(2))
    cursors.lower("", 0, at(1))
    cursors.end_scan([LaneCursor("", 0, at(5), 50)])
    assert sorted_cursors(cursors) == [LaneCursor("", 3, at(2), 0), LaneCursor("", 0, at(1), 0)]


def test_what_the_scan_saw_lower_than_the_news_stands() -> None:
    cursors = Cursors()
    cursors.begin_scan()
    cursors.lower("", 0, at(7))
    cursors.end_scan([LaneCursor("", 0, at(5), 50)])
    assert sorted_cursors(cursors) == [LaneCursor("", 0, at(5), 50)]


def test_news_from_before_a_scan_does_not_outlive_it() -> None:
    cursors = Cursors()
    cursors.lower("", 3, at(2))
    cursors.begin_scan()
    cursors.end_scan([])
    assert not cursors


def test_news_during_a_claim_outlives_it() -> None:
    """A job committed late behind the claim's last one must not be passed over."""
    cursors = Cursors()
    cursors.end_scan([LaneCursor("", 0, at(0), 1), LaneCursor("", 5, at(0), 1)])
    cursors.begin_claim()
    cursors.lower("", 0, at(3))
    claimed(cursors, [attempt(12, 8, priority=5), attempt(10, 1), attempt(11, 8)], 9)
    assert sorted_cursors(cursors) == [LaneCursor("", 0, at(3), 0)]


def test_news_from_before_a_claim_does_not_hold_it_back() -> None:
    cursors = Cursors()
    cursors.lower("", 0, at(3))
    cursors.begin_claim()
    claimed(cursors, [attempt(11, 8)], 1)
    assert sorted_cursors(cursors) == [LaneCursor("", 0, at(8), 11)]
