"""What a schedule is to fire at a moment: on time, missed, caught up with."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.maintenance.schedules import MAX_TICKS, plan_firing
from penstock.store.schedules import DueTicks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
GRACE = 60.0


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def due(**given: Any) -> DueTicks:
    fields: dict[str, Any] = {
        "name": "often",
        "version": 7,
        "cron": None,
        "every": 10.0,
        "timezone": "UTC",
        "anchor": NOON,
        "done_until": NOON,
        "catch_up": "skip",
        "start": None,
    }
    return DueTicks(**fields | given)


def test_a_tick_that_has_come_fires_and_the_next_is_known() -> None:
    found = plan_firing(due(), after(10.02), GRACE)
    assert (found.ticks, found.missed, found.next_at) == ([after(10)], None, after(20))
    assert (found.name, found.version) == ("often", 7)


def test_before_its_tick_nothing_fires() -> None:
    found = plan_firing(due(), after(9.99), GRACE)
    assert (found.ticks, found.missed, found.next_at) == ([], None, after(10))


@pytest.mark.parametrize("catch_up", ["skip", "once", "all"])
def test_while_leaders_change_within_the_grace_no_tick_is_missed(catch_up: str) -> None:
    found = plan_firing(due(catch_up=catch_up), after(45), GRACE)
    assert (found.ticks, found.missed) == ([after(10), after(20), after(30), after(40)], None)


@pytest.mark.parametrize("catch_up", ["skip", "once"])
def test_ticks_older_than_the_grace_are_one(catch_up: str) -> None:
    found = plan_firing(due(catch_up=catch_up), after(105), GRACE)
    assert (found.missed, found.missed_ticks) == (after(40), 4)
    assert found.ticks == [after(seconds) for seconds in (50, 60, 70, 80, 90, 100)]


def test_what_is_to_catch_up_with_all_does_so_in_helpings() -> None:
    day = due(catch_up="all")
    found = plan_firing(day, after(86_400), GRACE)
    assert (found.missed, len(found.ticks)) == (None, MAX_TICKS)
    assert found.next_at == found.ticks[-1] + timedelta(seconds=10)
    found = plan_firing(due(catch_up="all", done_until=found.ticks[-1]), after(86_400), GRACE)
    assert found.ticks[0] == after(10 * (MAX_TICKS + 1))


def test_clock_step_back_repeats_no_tick() -> None:
    found = plan_firing(due(done_until=after(3600)), after(10), GRACE)
    assert (found.ticks, found.missed, found.next_at) == ([], None, after(3610))


def test_cron_fires_once_at_the_end_of_summer_time() -> None:
    berlin = {"cron": "30 2 * * *", "every": None, "timezone": "Europe/Berlin"}
    once = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    night = due(**berlin, done_until=once - timedelta(days=1))
    assert plan_firing(night, once, GRACE).ticks == [once]
    again = plan_firing(due(**berlin, done_until=once), once + timedelta(hours=1), GRACE)
    assert (again.ticks, again.missed) == ([], None)
    assert again.next_at == once + timedelta(days=1, hours=1)
