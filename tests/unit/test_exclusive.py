"""Isolation has a bound: suspects do not keep a worker for ever."""

import pytest

from penstock.worker.run import exclusive
from penstock.worker.run.exclusive import ExclusiveTimeLimit


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(exclusive, "monotonic", lambda: now[0])
    return now


def test_exclusive_turn_of_suspects_ends_and_comes_again(clock: list[float]) -> None:
    alone = ExclusiveTimeLimit(30)
    assert alone.grant()
    clock[0] += 29
    assert alone.grant()
    clock[0] += 1
    assert not alone.grant()
    clock[0] += 29
    assert not alone.grant()
    clock[0] += 1
    assert alone.grant()


def test_an_ordinary_job_breaks_the_row(clock: list[float]) -> None:
    alone = ExclusiveTimeLimit(30)
    assert alone.grant()
    clock[0] += 29
    alone.end()
    assert alone.grant()
    clock[0] += 29
    assert alone.grant()
