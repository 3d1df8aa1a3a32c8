"""Lengths of time as people write them."""

import pytest
import typer

from penstock.cli.duration import seconds


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
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "s", "25 s", "1y", "-1", "1s!", "nan", "1e99"])
def test_what_cannot(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        seconds(text)
