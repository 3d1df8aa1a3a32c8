"""The statements about unique keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.store.connection import Executor
from penstock.store.store import Store


class Holder(NamedTuple):
    """The job that holds a unique key, and until when if it has ended."""

    job: str
    until: datetime | None


class UniqueKeys:
    """Statements about unique keys, on whatever connection the caller has."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def holders(self, on: Executor, ids: Sequence[int]) -> dict[str, Holder]:
        """Who holds the keys of jobs, by their ids; a key that nobody holds is left out."""
        rows = await on.fetch(self._store.statement("find_unique_holders"), list(ids))
        return {str(row["id"]): Holder(str(row["job"]), row["until"]) for row in rows}
