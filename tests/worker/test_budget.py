"""Costly looks around keep to their share of the time."""

import time

import pytest

from penstock.lifecycle import ScanBudget

pytestmark = pytest.mark.any_pooler


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch):
    """Take a look that lasts so many seconds."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def look(budget: ScanBudget, seconds: float) -> float:
        nonlocal now
        with budget:
            now += seconds
        return budget.pause

    return look


def test_quick_looks_come_at_the_shortest_interval(look) -> None:
    budget = ScanBudget(2.0)
    assert [look(budget, 0.01) for _ in range(3)] == [2.0, 2.0, 2.0]


def test_slow_looks_rest_twenty_times_as_long_as_they_take(look) -> None:
    budget = ScanBudget(2.0)
    look(budget, 3.0)
    assert look(budget, 3.0) == pytest.approx(60.0)


def test_one_look_that_an_outage_made_long_changes_nothing(look) -> None:
    budget = ScanBudget(2.0)
    assert [look(budget, seconds) for seconds in (0.01, 60.0, 0.01)] == [2.0, 2.0, 2.0]
