"""Low-water marks, without a database: what is remembered when news, claims and scans cross."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.store import LaneCursor
from penstock.worker.claim.cursors import Cursors, Visit

pytestmark = pytest.mark.any_pooler

T0 = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def attempt(id: int, seconds: float, lane: str = "", priority: int = 0) -> Any:
    """A claimed job, as far as marks look at it."""
    row = {"lane": lane, "priority": priority, "ready_at": at(seconds)}
    return SimpleNamespace(id=id, row=row)


def lines(marks: Cursors, turn: str = "") -> list[LaneCursor]:
    return sorted(marks.lines(turn), key=lambda line: -line.priority)


def claimed(marks: Cursors, attempts: list[Any], limit: int, *, turn: str = "") -> None:
    """What a claim of up to `limit` jobs from all lines of a turn has brought."""
    marks.advance([Visit(line, limit) for line in lines(marks, turn)], attempts, limit)


def test_nothing_is_known_at_first() -> None:
    assert not Cursors()
    assert not Cursors().lines("")


def test_lines_belong_to_who_takes_the_turn_with_them() -> None:
    marks = Cursors()
    found = [
        LaneCursor("", 0, at(0), 1),
        LaneCursor("a", 7, at(0), 2),
        LaneCursor("a\x1fopenai", 0, at(0), 3),
    ]
    marks.end_scan(found)
    assert list(marks.turns) == ["", "a"]
    assert lines(marks, "a") == found[1:]


def test_a_claim_goes_on_behind_its_last_job() -> None:
    marks = Cursors()
    marks.end_scan([LaneCursor("", 0, at(0), 1), LaneCursor("", 5, at(0), 2)])
    claimed(marks, [attempt(20, 1, priority=5), attempt(10, 1), attempt(11, 2)], 3)
    assert lines(marks) == [LaneCursor("", 0, at(2), 11)]
    claimed(marks, [attempt(12, 3)], 1)
    assert lines(marks) == [LaneCursor("", 0, at(3), 12)]


def test_cursor_that_gave_fewer_jobs_than_asked_is_dropped() -> None:
    marks = Cursors()
    marks.end_scan(
        [LaneCursor("a", 0, at(0), 1), LaneCursor("b", 0, at(0), 2), LaneCursor("c", 0, at(0), 3)]
    )
    visits = [Visit(line, 2) for turn in "abc" for line in marks.lines(turn)]
    some = [attempt(n, n, lane=lane) for n, lane in enumerate("aab", 10)]
    marks.advance(visits, some, 6)
    assert list(marks.turns) == ["a"]
    assert lines(marks, "a") == [LaneCursor("a", 0, at(11), 11)]


def test_a_line_that_the_claim_did_not_come_to_stays_as_it_was() -> None:
    marks = Cursors()
    marks.end_scan([LaneCursor("", 5, at(0), 1), LaneCursor("", 0, at(0), 2)])
    claimed(marks, [attempt(1, 0, priority=5)], 1)
    assert lines(marks) == [LaneCursor("", 5, at(0), 1), LaneCursor("", 0, at(0), 2)]


def test_a_turn_that_came_to_nothing_is_next_once_more() -> None:
    marks = Cursors()
    marks.end_scan(
        [LaneCursor("a", 5, at(0), 1), LaneCursor("a", 0, at(0), 2), LaneCursor("b", 0, at(0), 3)]
    )
    assert marks.turns.next() == "a"
    marks.advance([Visit(LaneCursor("a", 5, at(0), 1), 1)], [], 1)
    assert marks.turns.next() == "a"


def test_a_page_of_a_scan_leaves_the_other_lanes_alone() -> None:
    marks = Cursors()
    marks.end_scan([LaneCursor(lane, 0, at(0), 1) for lane in "abcd"])
    marks.begin_scan()
    marks.end_scan([LaneCursor("b", 0, at(1), 9)], "b", "c")
    assert sorted(marks.turns) == ["a", "b", "d"]


def test_cursors_ignore_tenants_the_worker_does_not_serve() -> None:
    marks = Cursors(lambda turn: turn == "a")
    marks.end_scan([LaneCursor("a", 0, at(0), 1), LaneCursor("b", 0, at(0), 2)])
    marks.lower("c", 0, at(0))
    assert list(marks.turns) == ["a"]


def test_news_lowers_a_mark_and_never_raises_it() -> None:
    marks = Cursors()
    marks.end_scan([LaneCursor("", 0, at(10), 100)])
    marks.lower("", 0, at(5))
    assert lines(marks) == [LaneCursor("", 0, at(5), 0)]
    marks.lower("", 0, at(8))
    assert lines(marks) == [LaneCursor("", 0, at(5), 0)]


def test_news_of_a_new_line_adds_it() -> None:
    marks = Cursors()
    marks.lower("", 9, at(3))
    assert lines(marks) == [LaneCursor("", 9, at(3), 0)]


def test_news_before_the_first_scan_is_kept_but_not_acted_upon() -> None:
    """There may be a line of higher priority that it does not tell of."""
    marks = Cursors()
    marks.begin_scan()
    marks.lower("", 0, at(3))
    assert not marks
    marks.end_scan([LaneCursor("", 9, at(5), 50)])
    assert marks
    assert [line.priority for line in lines(marks)] == [9, 0]


def test_a_scan_replaces_what_was_known() -> None:
    """Lines that have run dry go, and a mark that was too high comes down."""
    marks = Cursors()
    marks.end_scan([LaneCursor("", 0, at(10), 100), LaneCursor("", 5, at(10), 101)])
    marks.begin_scan()
    marks.end_scan([LaneCursor("", 0, at(1), 1)])
    assert lines(marks) == [LaneCursor("", 0, at(1), 1)]


def test_news_during_a_scan_outlives_it() -> None:
    """The scan's snapshot is older than the news: what it does not see may well be there."""
    marks = Cursors()
    marks.begin_scan()
    marks.lower("", 3, at(2))
    marks.lower("", 0, at(1))
    marks.end_scan([LaneCursor("", 0, at(5), 50)])
    assert lines(marks) == [LaneCursor("", 3, at(2), 0), LaneCursor("", 0, at(1), 0)]


def test_what_the_scan_saw_lower_than_the_news_stands() -> None:
    marks = Cursors()
    marks.begin_scan()
    marks.lower("", 0, at(7))
    marks.end_scan([LaneCursor("", 0, at(5), 50)])
    assert lines(marks) == [LaneCursor("", 0, at(5), 50)]


def test_news_from_before_a_scan_does_not_outlive_it() -> None:
    marks = Cursors()
    marks.lower("", 3, at(2))
    marks.begin_scan()
    marks.end_scan([])
    assert not marks


def test_news_during_a_claim_outlives_it() -> None:
    """A job committed late behind the claim's last one must not be passed over."""
    marks = Cursors()
    marks.end_scan([LaneCursor("", 0, at(0), 1), LaneCursor("", 5, at(0), 1)])
    marks.begin_claim()
    marks.lower("", 0, at(3))
    claimed(marks, [attempt(12, 8, priority=5), attempt(10, 1), attempt(11, 8)], 9)
    assert lines(marks) == [LaneCursor("", 0, at(3), 0)]


def test_news_from_before_a_claim_does_not_hold_it_back() -> None:
    marks = Cursors()
    marks.lower("", 0, at(3))
    marks.begin_claim()
    claimed(marks, [attempt(11, 8)], 1)
    assert lines(marks) == [LaneCursor("", 0, at(8), 11)]
