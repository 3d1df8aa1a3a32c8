"""From which cursors a claim reads, without a database."""

from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.store import LaneCursor
from penstock.worker.claim import plan
from penstock.worker.claim.queue import QueueState

pytestmark = pytest.mark.any_pooler

T0 = datetime(2030, 1, 1, tzinfo=UTC)
UNLIMITED: Any = SimpleNamespace(book=SimpleNamespace(is_on=False))


def queue(**weights: int) -> QueueState:
    """A queue whose lanes have these weights and more jobs than anybody asks for."""
    state = QueueState("imports", 100, 100)
    state.weight = lambda lane: weights[lane]
    state.cursors.end_scan([LaneCursor(lane, 0, T0, 1) for lane in weights])
    return state


def taken(state: QueueState, wanted: int) -> dict[str, int]:
    takes, _ = plan.plan_claim(state, UNLIMITED, wanted)
    return {take.cursor.lane: take.max_jobs for take in takes}


def test_a_claim_takes_whole_rounds_by_weight() -> None:
    assert taken(queue(a=1, b=1), 40) == {"a": 20, "b": 20}
    assert taken(queue(a=1, b=3), 40) == {"a": 10, "b": 30}
    assert taken(queue(a=1, b=3, c=6), 40) == {"a": 4, "b": 12, "c": 24}


def test_small_claims_come_to_the_same_shares() -> None:
    state, sum_of = queue(a=1, b=3), Counter[str]()
    for _ in range(40):
        sum_of.update(taken(state, 1))
    assert sum_of == {"a": 10, "b": 30}


def test_claim_finishes_a_cut_short_turn_before_full_rounds() -> None:
    state = queue(a=3, b=1)
    assert taken(state, 1) == {"a": 1}
    assert taken(state, 16) == {"a": 11, "b": 4}


def test_lanes_beyond_one_claim_take_turns_over_several() -> None:
    state = queue(**{f"lane {number}": 1 for number in range(10)})
    assert list(taken(state, 4)) == [f"lane {number}" for number in range(4)]
    assert list(taken(state, 4)) == [f"lane {number}" for number in range(4, 8)]
    assert list(taken(state, 4)) == ["lane 8", "lane 9", "lane 0", "lane 1"]
