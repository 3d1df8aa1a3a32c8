"""Counts over time become rates."""

import pytest

from penstock.bench.drain import Timeline


def test_the_rate_counts_from_the_first_claim_to_the_last_settle() -> None:
    timeline = Timeline.of(10.0, [[(11.0, 100), (12.0, 300), (99.0, 300)]])

    assert timeline.settled == 300
    assert timeline.seconds == pytest.approx(2.0)
    assert timeline.rate == pytest.approx(150.0)


def test_tenths_are_read_off_between_the_samples() -> None:
    timeline = Timeline.of(0.0, [[(1.0, 500), (6.0, 1000)]])

    assert timeline.tenths() == pytest.approx([500.0] * 5 + [100.0] * 5)


def test_several_processes_count_as_one() -> None:
    timeline = Timeline.of(0.0, [[(1.0, 10), (3.0, 30)], [(2.0, 20), (4.0, 30)]])

    assert timeline.points == ((0.0, 0), (1.0, 10), (2.0, 30), (3.0, 50), (4.0, 60))
    assert timeline.rate == pytest.approx(15.0)


def test_what_is_too_short_for_two_clocks_took_a_moment() -> None:
    """By our clock, some jobs were settled before the database began to claim them."""
    timeline = Timeline.of(10.0, [[(9.9995, 100), (10.9, 1000)]])

    assert timeline.tenths()[0] == pytest.approx(100 / 0.001)
    assert Timeline.of(10.0, [[(9.9995, 100)]]).seconds == pytest.approx(0.001)
