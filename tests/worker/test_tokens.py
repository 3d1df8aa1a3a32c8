"""Tokens of a rate, without a database: used at once or given back."""

import time
from typing import Any

import pytest

from penstock.worker.limits.buckets import MAX_TOKEN_AGE_S, Bucket

pytestmark = pytest.mark.any_pooler


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Any:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def pass_time(seconds: float = 0.0) -> float:
        nonlocal now
        now += seconds
        return now

    return pass_time


def test_tokens_are_used_one_by_one(pass_time: Any) -> None:
    tokens = Bucket()
    assert not tokens.may_use
    tokens.put(2, pass_time())
    tokens.use()
    assert (tokens.count, tokens.may_use) == (1, True)
    tokens.use()
    assert (tokens.count, tokens.may_use) == (0, False)


def test_the_oldest_are_used_first_and_what_is_stale_goes_back(pass_time: Any) -> None:
    tokens = Bucket()
    tokens.put(3, pass_time())
    tokens.put(2, pass_time(MAX_TOKEN_AGE_S / 2))
    tokens.use()
    pass_time(MAX_TOKEN_AGE_S * 0.6)
    assert not tokens.may_use
    assert tokens.drop_stale() == 2
    assert (tokens.count, tokens.may_use) == (2, True)
    pass_time(MAX_TOKEN_AGE_S)
    assert (tokens.drop_stale(), tokens.count, tokens.stale_at) == (2, 0, float("inf"))


def test_what_is_more_than_a_new_burst_is_forgotten(pass_time: Any) -> None:
    tokens = Bucket()
    tokens.put(5, pass_time())
    tokens.limit_to(2)
    assert tokens.count == 2
    tokens.limit_to(0)
    assert (tokens.count, tokens.may_use) == (0, False)


def test_one_that_was_used_without_having_been_taken_is_owed(pass_time: Any) -> None:
    tokens = Bucket()
    tokens.use()
    tokens.put(1, pass_time())
    assert (tokens.count, tokens.may_use) == (0, False)
