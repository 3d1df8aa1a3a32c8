"""The statements of limits: slots that workers hold, tokens and units that run in by the second."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from penstock.errors import BudgetTooSmall, UnknownBudget
from penstock.store import errors
from penstock.store.connection import Executor
from penstock.store.store import Store


class SlotRequest(NamedTuple):
    """How many slots of a key a worker would like, and how many its jobs use now."""

    wants: int
    uses: int


class Granted(NamedTuple):
    """What a worker holds of a key. Without a limit both are None.

    While others wait, `share` is what it should go down to as its jobs end.
    """

    slots: int | None
    share: int | None


class Taken(NamedTuple):
    """The tokens of a key, and in how many seconds there is one if there was none."""

    got: int
    wait: float


class Limits:
    """Statements for those who are limited, on whatever connection the caller has."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def grant(
        self, on: Executor, lease: int, asks: Mapping[str, SlotRequest]
    ) -> dict[str, Granted]:
        """Ask for slots and give back those that are not needed; no transaction around it."""
        rows = await on.fetch(
            self._store.call("grant_slots"),
            lease,
            list(asks),
            [ask.wants for ask in asks.values()],
            [ask.uses for ask in asks.values()],
        )
        return {row["key"]: Granted(row["slots"], row["share"]) for row in rows}

    async def take(self, on: Executor, wants: Mapping[str, int]) -> dict[str, Taken]:
        """Tokens for job starts, as many as there are; a negative number gives back."""
        sql = self._store.call("take_tokens")
        rows = await on.fetch(sql, list(wants), list(wants.values()))
        return {row["key"]: Taken(row["got"], row["wait"]) for row in rows}

    async def reserve(
        self, on: Executor, key: str, units: float, share: float = 1.0
    ) -> float | None:
        """Units of a budget, all or none: None, or the seconds after which to ask again.

        `share` is what is probably spent of them in the end.
        """
        statement = self._store.call("reserve_budget")
        try:
            wait: float | None = await on.fetchval(statement, key, units, share)
        except Exception as error:
            if errors.is_state(error, errors.BUDGET_TOO_SMALL):
                raise BudgetTooSmall(*json.loads(errors.detail(error) or "[]")) from error
            if errors.is_state(error, errors.UNKNOWN_BUDGET):
                raise UnknownBudget(key) from error
            raise
        return wait

    async def correct(self, on: Executor, key: str, units: float) -> None:
        """Give back units that were not needed; a negative number spends more."""
        await on.fetch(self._store.call("adjust_budget"), key, units)

    async def close_bucket(self, on: Executor, key: str, seconds: float) -> float:
        """Close a key to everybody who shares it; the seconds until it opens."""
        return float(await on.fetchval(self._store.call("close_bucket"), key, seconds))

    async def shut_bucket(self, on: Executor, key: str, seconds: float, by: str | None) -> float:
        """As `close_bucket`, for people: workers have no right to note anything."""
        return float(await on.fetchval(self._store.statement("close_bucket"), key, seconds, by))

    async def open_bucket(self, on: Executor, key: str, by: str | None = None) -> bool:
        """Open a key before its time; whether it was closed."""
        return bool(await on.fetchval(self._store.statement("open_bucket"), key, by))
