"""Low-water marks, without a database: what is remembered when news, claims and scans cross."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from penstock.store import Line
from penstock.worker.marks import Marks

T0 = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def attempt(id: int, seconds: float, lane: str = "", priority: int = 0) -> Any:
    """A claimed job, as far as marks look at it."""
    row = {"lane": lane, "priority": priority, "ready_at": at(seconds)}
    return SimpleNamespace(id=id, row=row)


def test_nothing_is_known_at_first() -> None:
    assert not Marks()
    assert Marks().lines() == []


def test_lines_come_highest_priority_first() -> None:
    marks = Marks()
    marks.end_scan([Line("", -5, at(0), 1), Line("b", 7, at(0), 2), Line("a", 7, at(0), 3)])
    assert [(line.priority, line.lane) for line in marks.lines()] == [(7, "a"), (7, "b"), (-5, "")]


def test_a_claim_goes_on_behind_its_last_job() -> None:
    marks = Marks()
    marks.end_scan([Line("", 0, at(0), 1), Line("", 5, at(0), 2)])
    marks.advance([attempt(10, 1), attempt(11, 2), attempt(20, 1, priority=5)])
    assert marks.lines() == [Line("", 5, at(1), 20), Line("", 0, at(2), 11)]


def test_news_lowers_a_mark_and_never_raises_it() -> None:
    marks = Marks()
    marks.end_scan([Line("", 0, at(10), 100)])
    marks.lower("", 0, at(5))
    assert marks.lines() == [Line("", 0, at(5), 0)]
    marks.lower("", 0, at(8))
    assert marks.lines() == [Line("", 0, at(5), 0)]


def test_news_of_a_new_line_adds_it() -> None:
    marks = Marks()
    marks.lower("", 9, at(3))
    assert marks.lines() == [Line("", 9, at(3), 0)]


def test_news_before_the_first_scan_is_kept_but_not_acted_upon() -> None:
    """There may be a line of higher priority that it does not tell of."""
    marks = Marks()
    marks.begin_scan()
    marks.lower("", 0, at(3))
    assert not marks
    marks.end_scan([Line("", 9, at(5), 50)])
    assert marks
    assert [line.priority for line in marks.lines()] == [9, 0]


def test_a_scan_replaces_what_was_known() -> None:
    """Lines that have run dry go, and a mark that was too high comes down."""
    marks = Marks()
    marks.end_scan([Line("", 0, at(10), 100), Line("", 5, at(10), 101)])
    marks.begin_scan()
    marks.end_scan([Line("", 0, at(1), 1)])
    assert marks.lines() == [Line("", 0, at(1), 1)]


def test_news_during_a_scan_outlives_it() -> None:
    """The scan's snapshot is older than the news: what it does not see may well be there."""
    marks = Marks()
    marks.begin_scan()
    marks.lower("", 3, at(2))
    marks.lower("", 0, at(1))
    marks.end_scan([Line("", 0, at(5), 50)])
    assert marks.lines() == [Line("", 3, at(2), 0), Line("", 0, at(1), 0)]


def test_what_the_scan_saw_lower_than_the_news_stands() -> None:
    marks = Marks()
    marks.begin_scan()
    marks.lower("", 0, at(7))
    marks.end_scan([Line("", 0, at(5), 50)])
    assert marks.lines() == [Line("", 0, at(5), 50)]


def test_news_from_before_a_scan_does_not_outlive_it() -> None:
    marks = Marks()
    marks.lower("", 3, at(2))
    marks.begin_scan()
    marks.end_scan([])
    assert not marks


def test_news_during_a_claim_outlives_it() -> None:
    """A job committed late behind the claim's last one must not be passed over."""
    marks = Marks()
    marks.end_scan([Line("", 0, at(0), 1), Line("", 5, at(0), 1)])
    marks.begin_claim()
    marks.lower("", 0, at(3))
    marks.advance([attempt(10, 1), attempt(11, 8), attempt(12, 8, priority=5)])
    assert marks.lines() == [Line("", 5, at(8), 12), Line("", 0, at(3), 0)]


def test_news_from_before_a_claim_does_not_hold_it_back() -> None:
    marks = Marks()
    marks.lower("", 0, at(3))
    marks.begin_claim()
    marks.advance([attempt(11, 8)])
    assert marks.lines() == [Line("", 0, at(8), 11)]
