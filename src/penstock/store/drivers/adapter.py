"""What an adapter for another driver must answer, and how one that blocks is driven."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

Row: TypeAlias = Mapping[str, Any]


class Adapter(ABC):
    """One connection of another driver. A blocking one answers without ever giving up control."""

    manner: ClassVar[Literal["async", "blocking"]]

    @abstractmethod
    async def fetch(self, query: str, *params: Any) -> Sequence[Row]:
        """The rows that a statement gives; none if it gives none."""

    @abstractmethod
    async def is_in_transaction(self) -> bool:
        """Whether what a statement has locked stays locked after it."""

    async def fetchrow(self, query: str, *params: Any) -> Row | None:
        rows = await self.fetch(query, *params)
        return rows[0] if rows else None

    async def fetchval(self, query: str, *params: Any) -> Any:
        row = await self.fetchrow(query, *params)
        return None if row is None else next(iter(row.values()))

    async def execute(self, query: str, *params: Any) -> None:
        await self.fetch(query, *params)


T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result. On a blocking adapter no question waits, so one step is all of it."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("A question to a blocking connection has waited for an event loop.")
