"""The attempts of a shared call: how many are still waited for."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Batch, Item, task
from penstock.worker.run.items import ItemAttempt, SharedCall


@task(batch=Batch(size=10_000))
async def handler(items: list[Item[int]]) -> list[None]:
    return [None for _ in items]


def shared(size: int, on_stop: Any = lambda attempt: attempt.end()) -> SharedCall:
    state: Any = SimpleNamespace(name="default")
    call = SharedCall(handler, state)
    for number in range(size):
        job: Any = SimpleNamespace(id=number)
        call.add(ItemAttempt(job, number, call, on_stop))
    return call


def test_call_is_over_once_each_item_has_ended_or_stopped() -> None:
    call = shared(4)
    first, second, third, fourth = call.attempts
    first.end()
    second.stop("timeout")
    third.stop_reason = "refused"  # The fence's word, which the settle has yet to confirm.
    assert (call.pending, call.is_over) == (2, False)
    third.stop("shutdown")
    fourth.stop("cancelled")
    assert (call.pending, call.is_over) == (0, True)
    for attempt in call.attempts:
        attempt.stop("shutdown")
        attempt.end()
    assert call.pending == 0


def test_to_stop_a_large_call_each_item_is_asked_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0
    is_pending = ItemAttempt.is_pending.fget  # type: ignore[attr-defined]

    def counted(attempt: ItemAttempt) -> bool:
        nonlocal asked
        asked += 1
        return bool(is_pending(attempt))

    def stopped(attempt: ItemAttempt) -> None:
        attempt.end()
        assert not call.is_over or attempt is call.attempts[-1]

    call = shared(1000, stopped)
    monkeypatch.setattr(ItemAttempt, "is_pending", property(counted))
    for attempt in call.attempts:
        attempt.stop("shutdown")
    assert call.is_over
    assert asked < 5 * len(call.attempts)
