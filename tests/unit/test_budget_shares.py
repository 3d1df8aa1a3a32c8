"""What a worker remembers of budgets."""

from typing import Any

from penstock.worker.run.budgets import MAX_KEYS, Budgets


def test_shares_are_not_kept_without_end() -> None:
    nowhere: Any = None
    budgets = Budgets(nowhere, nowhere, nowhere)
    for number in range(MAX_KEYS + 1):
        budgets.learn(f"account:{number}", 0.5)
    assert len(budgets._shares) < MAX_KEYS
