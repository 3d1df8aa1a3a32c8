"""Run the statements of limits: slots that workers hold, and buckets of tokens or budget units."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from penstock.errors import BudgetTooSmall, UnknownBudget
from penstock.store import errors
from penstock.store.connection import Executor
from penstock.store.store import Store


class SlotRequest(NamedTuple):
    """How many slots of a key a worker wants, and how many its running jobs use."""

    wants: int
    uses: int


class Granted(NamedTuple):
    """The slots of a key that a worker holds. Both fields are None if the key has no limit.

    While other workers wait for slots, this worker should go down to its `share` as its jobs end.
    """

    slots: int | None
    share: int | None


class Taken(NamedTuple):
    """The tokens taken for a key. If there were none, `wait` is the seconds until the next one."""

    got: int
    wait: float


class LimitStatements:
    """Run statements for limits on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def grant(
        self, on: Executor, lease: int, requests: Mapping[str, SlotRequest]
    ) -> dict[str, Granted]:
        """Request slots for a worker, and give back slots that it does not need.

        Return the slots that the worker then holds, by key. Call it outside of a transaction,
        because it locks keys that all workers share.
        """
        rows = await on.fetch(
            self._store.call("grant_slots"),
            lease,
            list(requests),
            [request.wants for request in requests.values()],
            [request.uses for request in requests.values()],
        )
        return {row["key"]: Granted(row["slots"], row["share"]) for row in rows}

    async def take(self, on: Executor, wants: Mapping[str, int]) -> dict[str, Taken]:
        """Take tokens for job starts, for each key up to the number in `wants`.

        A negative number gives tokens back.
        """
        sql = self._store.call("take_tokens")
        rows = await on.fetch(sql, list(wants), list(wants.values()))
        return {row["key"]: Taken(row["got"], row["wait"]) for row in rows}

    async def reserve(
        self, on: Executor, key: str, units: float, share: float = 1.0
    ) -> float | None:
        """Reserve units of a budget, all or none.

        Return None if the units are reserved, otherwise the seconds to wait before the next try.
        `share` is the fraction of the units that will probably be spent. Raises BudgetTooSmall or
        UnknownBudget.
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
        """Give back reserved units that were not needed. A negative number spends more units."""
        await on.fetch(self._store.call("adjust_budget"), key, units)

    async def close_bucket(self, on: Executor, key: str, seconds: float) -> float:
        """Close the bucket of a key, so that no worker starts jobs of the key for some seconds.

        Return the seconds until the bucket opens.
        """
        return float(await on.fetchval(self._store.call("close_bucket"), key, seconds))

    async def shut_bucket(self, on: Executor, key: str, seconds: float, by: str | None) -> float:
        """Close a bucket as `close_bucket` does, and write an audit entry.

        This is only for calls made by people, because workers have no right to write to the audit.
        """
        return float(await on.fetchval(self._store.statement("close_bucket"), key, seconds, by))

    async def open_bucket(self, on: Executor, key: str, by: str | None = None) -> bool:
        """Open a bucket before its time. Return False if it was not closed."""
        return bool(await on.fetchval(self._store.statement("open_bucket"), key, by))
