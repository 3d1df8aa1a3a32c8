"""Rates as people write them."""

import pytest

from penstock.errors import ConfigError
from penstock.rate import as_text, per_second


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        (5, 5.0),
        (0.5, 0.5),
        ("10", 10.0),
        (" 0.5 ", 0.5),
        ("10/s", 10.0),
        ("500/min", 500 / 60),
        ("2000 / hour", 2000 / 3600),
        ("1.5/second", 1.5),
        ("1/day", 1 / 86_400),
    ],
)
def test_a_rate_is_a_number_per_second_or_a_text(given: float | str, rate: float) -> None:
    assert per_second("rate", given) == pytest.approx(rate)


@pytest.mark.parametrize("given", [0, -1, "0/s", "fast", "10/", "10/fortnight", True, 1e12, None])
def test_what_is_no_rate_is_refused_with_an_example(given: object) -> None:
    with pytest.raises(ConfigError, match=r"The setting rate is .*500/min"):
        per_second("rate", given)


@pytest.mark.parametrize("text", ["10/s", "500/min", "2000/hour", "1/day", "7/min"])
def test_a_rate_is_written_as_it_was_given(text: str) -> None:
    assert as_text(per_second("rate", text)) == text


def test_a_rate_that_is_whole_in_no_unit_is_rounded() -> None:
    assert (as_text(1.23456), as_text(0.0123456)) == ("1.23/s", "44.4/hour")
