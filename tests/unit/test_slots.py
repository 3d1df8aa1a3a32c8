"""How many jobs are fetched ahead."""

import pytest

from penstock.worker.limits import slots
from penstock.worker.limits.slots import Slots


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(slots, "time", clock)
    return clock


def end(some: Slots, count: int, seconds: float) -> None:
    for _ in range(count):
        some.take()
        some.give_back(seconds)


def test_quick_jobs_make_it_fetch_ahead(clock: Clock) -> None:
    some = Slots(20, max_ahead=1000)
    clock.now = 1.0
    end(some, 10_000, 0.001)
    some.measure()
    assert some.ahead == 250


def test_slow_jobs_that_end_at_once_are_not_taken_for_quick_ones(clock: Clock) -> None:
    some = Slots(20, max_ahead=1000)
    clock.now = 0.01
    end(some, 20, 0.5)
    some.measure()
    assert some.ahead <= 2
