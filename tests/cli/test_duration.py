"""Lengths of time as people write them."""

import pytest
import typer

from penstock.cli.options import parse_duration, parse_past_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("25s", 25),
        ("25", 25),
        ("0.5", 0.5),
        ("500ms", 0.5),
        ("2m", 120),
        ("1h30m", 5400),
        ("2d", 172_800),
    ],
)
def test_what_can_be_written(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "s", "25 s", "1y", "-1", "1s!", "nan", "1e99"])
def test_what_cannot(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)


@pytest.mark.parametrize("text", ["yesterday", "-1d", "2026-13-01"])
def test_a_moment_in_the_past_is_a_time_or_how_long_ago_it_was(text: str) -> None:
    expected = f"'{text}' is not a time; write how long ago, like 2h or 7d, or write it like"
    with pytest.raises(typer.BadParameter, match=expected):
        parse_past_time(text)
    assert parse_past_time("2h") < parse_past_time("1h") > parse_past_time("2026-07-18T09:30:00Z")
