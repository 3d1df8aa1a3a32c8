"""What a child process may ask its worker for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.store.steps import Saved
from penstock.worker.budgets import Budgets
from penstock.worker.journal import Journal
from penstock.worker.run import Run

Help = Callable[..., Awaitable[Any]]


def help_with(journal: Journal, budgets: Budgets) -> dict[str, Help]:
    """The calls by their names; each gets the run that asks."""

    async def save(run: Run, kind: str, name: str, result: str) -> float:
        return await journal.save(run, Saved(kind, name, result))

    async def share(run: Run, kind: str, name: str, result: str, key: bytes, ttl: float) -> None:
        await journal.share(run, Saved(kind, name, result), key, ttl)

    async def learn(run: Run, key: str, share: float) -> None:
        budgets.learn(key, share)

    return {
        "read": journal.read,
        "save": save,
        "recall": journal.recall,
        "share": share,
        "sleep": journal.sleep,
        "wait_for_event": journal.wait_for_event,
        "parents": journal.parents,
        "extend": journal.extend,
        "reserve": lambda run, key, units: budgets.reserve(key, units),
        "correct": lambda run, key, units: budgets.correct(key, units),
        "close": lambda run, key, wait: budgets.close(key, wait),
        "learn": learn,
        "give_back_starts": lambda run, keys: budgets.give_back_starts(keys),
    }
