"""Run the statements for unique keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.store.connection import Executor
from penstock.store.store import Store


class Holder(NamedTuple):
    """The job that holds a unique key. If the job has ended, it holds the key `until` then."""

    job: str
    until: datetime | None


class UniqueKeys:
    """Run statements for unique keys on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def holders(self, on: Executor, ids: Sequence[int]) -> dict[str, Holder]:
        """Return the holders of the unique keys of jobs, by job id, as far as there are any."""
        rows = await on.fetch(self._store.statement("find_unique_holders"), list(ids))
        return {str(row["id"]): Holder(str(row["job"]), row["until"]) for row in rows}
