"""Numbers as people read them, and moments as they write them."""

from datetime import UTC, datetime, timedelta

import pytest
import typer

from penstock.cli.options import parse_past_time, parse_time
from penstock.cli.tables import format_age, format_duration, format_percentage, format_rate
from penstock.wording import counted


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-0.1, "0 ms"),
        (0.0123, "12 ms"),
        (2.44, "2.4 s"),
        (59.94, "59.9 s"),
        (59.96, "1m 00s"),
        (185, "3m 05s"),
        (3599.9, "59m 59s"),
        (3600, "1h 00m"),
        (7 * 3600 + 60, "7h 01m"),
        (2 * 86_400 + 4 * 3600, "2d 04h"),
    ],
)
def test_lengths_of_time(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0 s ago"), (3.2, "3 s ago"), (720, "12m ago"), (7200, "2h ago"), (180_000, "2d ago")],
)
def test_ages(seconds: float, shown: str) -> None:
    assert format_age(seconds) == shown


@pytest.mark.parametrize(
    ("per_second", "shown"),
    [(0, "0/s"), (1234.5, "1,234/s"), (12.34, "12.3/s"), (0.5, "30.0/min"), (0.001, "3.6/h")],
)
def test_rates(per_second: float, shown: str) -> None:
    assert format_rate(per_second) == shown


def test_shares_and_counts() -> None:
    assert [format_percentage(part) for part in (None, 0, 0.004, 1)] == [
        "–",
        "0 %",
        "0.4%",
        "100.0%",
    ]
    assert [counted(number, "job") for number in (0, 1, 1200)] == ["0 jobs", "1 job", "1,200 jobs"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-07-18T09:30:00Z", datetime(2026, 7, 18, 9, 30, tzinfo=UTC)),
        ("2026-07-18T09:30:00+02:00", datetime(2026, 7, 18, 7, 30, tzinfo=UTC)),
        ("2026-07-18 09:30", datetime(2026, 7, 18, 9, 30, tzinfo=UTC)),
        ("2026-07-18", datetime(2026, 7, 18, tzinfo=UTC)),
    ],
)
def test_moments(text: str, expected: datetime) -> None:
    assert parse_time(text) == parse_past_time(text) == expected


def test_a_moment_in_the_past_by_its_distance() -> None:
    assert abs(datetime.now(UTC) - timedelta(hours=2) - parse_past_time("2h")) < timedelta(
        minutes=1
    )


@pytest.mark.parametrize("text", ["noon", "2026-13-01", ""])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_time(text)
