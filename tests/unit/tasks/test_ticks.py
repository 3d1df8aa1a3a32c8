"""When schedules fire: cron with and without seconds, in time zones, and intervals."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.tasks.schedule import Rule, checked_cron, checked_every

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def cron(expression: str, zone: str = "UTC") -> Rule:
    return Rule(expression, None, zone, NOON)


def every(seconds: float) -> Rule:
    return Rule(None, seconds, "UTC", NOON)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def some(rule: Rule, after: str, number: int = 3) -> list[str]:
    """The next ticks in UTC, as people write them."""
    return [f"{tick:%m-%d %H:%M:%S}" for tick in islice(rule.after(at(after)), number)]


def test_five_fields_fire_at_the_full_minute() -> None:
    assert some(cron("30 3 * * *"), "2026-03-02 03:30:00") == [
        "03-03 03:30:00",
        "03-04 03:30:00",
        "03-05 03:30:00",
    ]


def test_a_sixth_field_before_them_is_the_second() -> None:
    assert some(cron("*/20 0 12 * * *"), "2026-03-02 11:59:59.5", 4) == [
        "03-02 12:00:00",
        "03-02 12:00:20",
        "03-02 12:00:40",
        "03-03 12:00:00",
    ]


def test_interval_counts_from_its_anchor() -> None:
    assert some(every(90), "2026-03-02 12:03:17", 2) == ["03-02 12:04:30", "03-02 12:06:00"]
    assert some(every(90), "2026-03-02 12:04:30", 1) == ["03-02 12:06:00"]
    assert some(every(90), "2026-03-01 00:00:00", 1) == ["03-02 12:01:30"]


def test_interval_of_a_third_of_a_second_does_not_drift() -> None:
    ticks = list(islice(every(1 / 3).after(NOON), 30_000))
    assert ticks[-1] == NOON + timedelta(seconds=10_000)
    for tick, following in zip(ticks[::1000], ticks[1::1000], strict=True):
        assert next(every(1 / 3).after(tick)) == following


# The clocks go forward: in Berlin at 02:00, in New York as well, three weeks apart. Both are named
# in UTC.


@pytest.mark.parametrize(
    ("zone", "before", "ticks"),
    [
        ("Europe/Berlin", "2026-03-28 00:00", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("America/New_York", "2026-03-07 00:00", ["03-07 07:30", "03-08 07:00", "03-09 06:30"]),
    ],
)
def test_a_tick_in_the_hour_that_is_left_out_fires_at_its_end(
    zone: str, before: str, ticks: list[str]
) -> None:
    assert some(cron("30 2 * * *", zone), before) == [f"{tick}:00" for tick in ticks]


@pytest.mark.parametrize(
    ("zone", "expression", "before", "ticks"),
    [
        (
            "Europe/Berlin",
            "30 2 * * *",
            "2026-10-24 12:00",
            ["10-25 00:30", "10-26 01:30", "10-27 01:30"],
        ),
        (
            "America/New_York",
            "30 1 * * *",
            "2026-10-31 12:00",
            ["11-01 05:30", "11-02 06:30", "11-03 06:30"],
        ),
    ],
)
def test_a_tick_in_the_hour_that_comes_twice_fires_once(
    zone: str, expression: str, before: str, ticks: list[str]
) -> None:
    assert some(cron(expression, zone), before) == [f"{tick}:00" for tick in ticks]


def test_cron_does_not_fire_again_in_the_repeated_hour() -> None:
    """02:15 for the second time is 01:15 in UTC; 02:30 has been, at 00:30."""
    assert some(cron("30 2 * * *", "Europe/Berlin"), "2026-10-25 01:15", 1) == ["10-26 01:30:00"]


@pytest.mark.parametrize("day", ["2026-03-28 23:50", "2026-10-24 22:50"])
def test_cron_by_minutes_goes_on_through_clock_changes(day: str) -> None:
    ticks = list(islice(cron("*/15 * * * *", "Europe/Berlin").after(at(day)), 16))
    assert {late - early for early, late in pairwise(ticks)} == {timedelta(minutes=15)}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Africa/Cairo", "Asia/Gaza"])
@pytest.mark.parametrize("expression", ["0 0 * * *", "30 2 * * *", "*/10 1-3 * * *", "0 */2 * * *"])
def test_ticks_rise_and_do_not_depend_on_the_start(zone: str, expression: str) -> None:
    rule = cron(expression, zone)
    ticks = list(islice(rule.after(at("2026-01-01")), 400))
    assert ticks == sorted(set(ticks))
    assert all(next(rule.after(tick)) == later for tick, later in pairwise(ticks))


def test_the_last_tick_of_a_span_is_found_however_long_the_span() -> None:
    long_ago = at("2020-01-01")
    now = at("2026-03-02 12:00:30")
    assert cron("* * * * * *").latest(long_ago, now) == now
    assert cron("0 0 29 2 *").latest(long_ago, now) == at("2024-02-29")
    assert every(7).latest(long_ago, now) == NOON + timedelta(seconds=28)
    assert cron("0 3 * * *").latest(at("2026-03-02 03:00"), now) is None
    assert cron("0 3 * * *").latest(now, long_ago) is None


def test_ticks_are_counted_up_to_a_bound() -> None:
    assert cron("0 * * * *").count_ticks(at("2026-03-02 00:00"), at("2026-03-02 05:00"), 100) == 5
    assert cron("* * * * * *").count_ticks(at("2026-03-01"), at("2026-03-02"), 100) == 100


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("@daily", "0 0 * * *"),
        ("@HOURLY", "0 * * * *"),
        ("  0  3 * * mon-fri ", "0 3 * * mon-fri"),
        ("0 0 L * *", "0 0 L * *"),
    ],
)
def test_an_expression_is_stored_in_one_way_of_writing(given: str, stored: str) -> None:
    assert checked_cron(given) == stored


@pytest.mark.parametrize(
    "given",
    ["", "nightly", "61 * * * *", "* * * *", "* * * * * * *", "0 0 30 2 *", None, 5, "@never"],
)
def test_what_is_no_expression_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="The setting cron is"):
        checked_cron(given)


@pytest.mark.parametrize("given", ["0 3 31 2 *", "0 0 31 4,6 *", "0 0 0 30 feb *"])
def test_one_that_never_happens_is_refused_for_that(given: str) -> None:
    with pytest.raises(ConfigError, match="none of its months has such a day"):
        checked_cron(given)


@pytest.mark.parametrize("given", ["0 3 32 2 *", "0 3 31 13 *", "61 3 31 2 *"])
def test_a_mistake_is_not_taken_for_a_day_that_never_comes(given: str) -> None:
    with pytest.raises(ConfigError, match="five fields"):
        checked_cron(given)


@pytest.mark.parametrize("given", [0, -1, 0.01, "60", None, True])
def test_what_is_no_interval_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"every is .*; it must be 0\.1 to .* seconds"):
        checked_every(given)
