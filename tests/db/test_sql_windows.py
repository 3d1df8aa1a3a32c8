"""Windows: when a queue or a lane is open, by the clock on the wall of its time zone."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from penstock.windows import Windows
from tests.db.engine import Engine

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = Windows("22:00-06:00", timezone="Europe/Berlin")
HOUR = 3600.0

# Spring: at 02:00 on 31 March 2024 the clock jumps to 03:00. Autumn: at 03:00 on 27 October 2024
# it goes back to 02:00. 3 January 2024 is a Wednesday.
WEDNESDAY = datetime(2024, 1, 3, tzinfo=BERLIN)


def berlin(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=BERLIN)


async def look(
    engine: Engine, windows: Windows | dict[str, Any] | None, now: datetime
) -> tuple[bool, float | None]:
    stored = windows.stored() if isinstance(windows, Windows) else windows
    text = None if stored is None else json.dumps(stored)
    [row] = await engine.call("check_windows_v1", windows=text, now=now.astimezone(UTC))
    return row["open"], row["changes_in"]


async def test_without_windows_it_is_always_open(engine: Engine) -> None:
    assert await look(engine, None, WEDNESDAY) == (True, None)


@pytest.mark.parametrize(
    ("hour", "expected"),
    [
        (0, (True, 6 * HOUR)),
        (5, (True, 1 * HOUR)),
        (6, (False, 16 * HOUR)),
        (21, (False, 1 * HOUR)),
        (22, (True, 8 * HOUR)),
        (23, (True, 7 * HOUR)),
    ],
)
async def test_a_night_runs_past_midnight(
    engine: Engine, hour: int, expected: tuple[bool, float]
) -> None:
    assert await look(engine, NIGHTS, WEDNESDAY.replace(hour=hour)) == expected


async def test_what_is_left_is_exact(engine: Engine) -> None:
    now = WEDNESDAY.replace(hour=21, minute=59, second=59, microsecond=750_000)
    assert await look(engine, NIGHTS, now) == (False, 0.25)
    assert await look(engine, NIGHTS, now + timedelta(seconds=0.25)) == (True, 8 * HOUR)


async def test_days_are_those_on_which_a_window_begins(engine: Engine) -> None:
    friday_night = Windows("fri 22:00-06:00", timezone="Europe/Berlin")
    assert await look(engine, friday_night, berlin(2024, 1, 5, 1)) == (False, 21 * HOUR)
    assert await look(engine, friday_night, berlin(2024, 1, 6, 1)) == (True, 5 * HOUR)
    # The next one is almost a week away.
    assert await look(engine, friday_night, berlin(2024, 1, 6, 6)) == (False, (6 * 24 + 16) * HOUR)


async def test_a_window_of_sunday_runs_into_the_next_week(engine: Engine) -> None:
    sunday = Windows("sun 20:00-04:00", timezone="Europe/Berlin")
    assert await look(engine, sunday, berlin(2024, 1, 8, 3)) == (True, 1 * HOUR)
    assert await look(engine, sunday, berlin(2024, 1, 8, 4)) == (False, (6 * 24 + 16) * HOUR)


async def test_windows_that_touch_are_one(engine: Engine) -> None:
    off_peak = Windows("mon-fri 22:00-06:00", "sat,sun 00:00-24:00", timezone="Europe/Berlin")
    friday = berlin(2024, 1, 5, 21)
    assert await look(engine, off_peak, friday) == (False, 1 * HOUR)
    # Open over the weekend, until Sunday's midnight: Monday's night begins in the evening.
    assert await look(engine, off_peak, friday + timedelta(hours=1)) == (True, 50 * HOUR)
    assert await look(engine, off_peak, berlin(2024, 1, 8)) == (False, 22 * HOUR)


async def test_several_windows_of_a_day(engine: Engine) -> None:
    breaks = Windows("10:00-10:15", "12:00-13:00", "12:30-14:00", timezone="Europe/Berlin")
    assert await look(engine, breaks, WEDNESDAY.replace(hour=9)) == (False, 1 * HOUR)
    assert await look(engine, breaks, WEDNESDAY.replace(hour=10)) == (True, HOUR / 4)
    assert await look(engine, breaks, WEDNESDAY.replace(hour=12)) == (True, 2 * HOUR)
    assert await look(engine, breaks, WEDNESDAY.replace(hour=14)) == (False, 20 * HOUR)


async def test_windows_over_the_whole_week_never_close(engine: Engine) -> None:
    always = Windows("00:00-24:00", timezone="Europe/Berlin")
    assert await look(engine, always, WEDNESDAY) == (True, None)
    # The week of 167 hours and that of 169 are no exceptions.
    assert await look(engine, always, berlin(2024, 3, 30)) == (True, None)
    assert await look(engine, always, berlin(2024, 10, 26)) == (True, None)


async def test_an_empty_list_is_never_open(engine: Engine) -> None:
    assert await look(engine, {"timezone": "UTC", "open": []}, WEDNESDAY) == (False, None)


# Clocks that change


async def test_night_is_an_hour_shorter_when_the_clock_goes_forward(engine: Engine) -> None:
    assert await look(engine, NIGHTS, berlin(2024, 3, 30, 22)) == (True, 7 * HOUR)
    assert await look(engine, NIGHTS, berlin(2024, 3, 31, 6)) == (False, 16 * HOUR)


async def test_night_is_an_hour_longer_when_the_clock_goes_back(engine: Engine) -> None:
    assert await look(engine, NIGHTS, berlin(2024, 10, 26, 22)) == (True, 9 * HOUR)


async def test_a_time_that_the_clock_skips_is_an_hour_later(engine: Engine) -> None:
    early = Windows("01:00-02:30", timezone="Europe/Berlin")
    assert await look(engine, early, berlin(2024, 3, 31, 1)) == (True, 1.5 * HOUR)


async def test_a_time_that_the_clock_shows_twice_is_the_second(engine: Engine) -> None:
    early = Windows("01:00-02:30", timezone="Europe/Berlin")
    assert await look(engine, early, berlin(2024, 10, 27, 1)) == (True, 2.5 * HOUR)
    first = berlin(2024, 10, 27, 2, 30)
    assert await look(engine, early, first) == (True, 1 * HOUR)
    assert await look(engine, early, first.replace(fold=1)) == (False, 22.5 * HOUR)


async def test_a_window_within_the_hour_that_is_skipped_is_left_out(engine: Engine) -> None:
    never_today = Windows("sun 02:30-03:00", timezone="Europe/Berlin")
    saturday = berlin(2024, 3, 30, 12)
    is_open, changes_in = await look(engine, never_today, saturday)
    assert not is_open
    assert saturday.astimezone(UTC) + timedelta(seconds=changes_in or 0) == berlin(
        2024, 4, 7, 2, 30
    )


# What somebody wrote by hand


@pytest.mark.parametrize(
    "windows",
    [
        {"timezone": "Mars/Olympus", "open": [{"days": [1], "from": "22:00", "to": "06:00"}]},
        {"timezone": "UTC", "open": [{"days": [1], "from": "late", "to": "06:00"}]},
        {"timezone": "UTC", "open": "nights"},
        {},
    ],
)
async def test_windows_that_cannot_be_read_hold_nothing_back(
    engine: Engine, windows: dict[str, Any]
) -> None:
    assert await look(engine, windows, WEDNESDAY) == (True, None)


async def test_windows_default_to_utc_and_every_day(engine: Engine) -> None:
    windows = {"open": [{"from": "12:00", "to": "13:00"}]}
    noon = datetime(2024, 1, 3, 12, tzinfo=UTC)
    assert await look(engine, windows, noon) == (True, 1 * HOUR)
