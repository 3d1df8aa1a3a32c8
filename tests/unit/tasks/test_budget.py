"""What becomes of reserved units at the end of a block."""

import asyncio
from typing import Any

import pytest

from penstock.errors import ConfigError, Retryable
from penstock.tasks.handler.budget import Budget, BudgetSettlement, NotNow
from penstock.tasks.handler.waits import suspension


def test_what_is_not_settled_counts_as_spent() -> None:
    assert Budget("openai", 100).end(None) == BudgetSettlement(0.0, None)
    assert Budget("openai", 100).end(ValueError()) == BudgetSettlement(0.0, None)


@pytest.mark.parametrize("error", [None, ValueError(), asyncio.CancelledError()])
def test_what_was_settled_counts_however_the_block_ends(error: BaseException | None) -> None:
    budget = Budget("openai", 100)
    budget.settle(130)
    assert budget.end(error) == BudgetSettlement(-30.0, None)
    budget.settle(40)
    assert budget.end(error) == BudgetSettlement(60.0, None), "the last word counts"


def test_a_refusal_costs_nothing_and_closes_the_key() -> None:
    assert Budget("openai", 100).end(Retryable("busy", after=7)) == BudgetSettlement(100.0, 7.0)
    budget = Budget("openai", 100)
    budget.close(3)
    assert budget.end(ValueError()) == BudgetSettlement(100.0, 3.0)
    budget.settle(10)
    assert budget.end(None) == BudgetSettlement(90.0, 3.0)


def test_a_refusal_inside_another_budget_closes_both() -> None:
    inner = NotNow(7.0, "requests")
    assert Budget("tokens", 100).end(inner) == BudgetSettlement(0.0, None)
    inner.__cause__ = Retryable("busy", after=7)
    assert Budget("tokens", 100).end(inner) == BudgetSettlement(100.0, 7.0)


@pytest.mark.parametrize("units", [-1, float("nan"), float("inf"), "10", True, None])
def test_units_are_a_number(units: Any) -> None:
    with pytest.raises(ConfigError, match="0 or more"):
        Budget("openai", units)
    with pytest.raises(ConfigError, match="0 or more"):
        Budget("openai", 1).settle(units)


def test_longest_of_several_waits_counts_unless_one_failed() -> None:
    short, long = NotNow(1.0, "a"), NotNow(2.0, "b")
    assert suspension(short) is short
    assert suspension(BaseExceptionGroup("both", [short, long])) is long
    assert suspension(BaseExceptionGroup("mixed", [short, ValueError()])) is None
    assert suspension(ValueError()) is None


def test_a_wait_is_not_swallowed_with_the_failures_of_a_call() -> None:
    assert not issubclass(NotNow, Exception)
