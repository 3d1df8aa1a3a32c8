"""Define the interface of adapters for other drivers, and run coroutines of blocking ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

Row: TypeAlias = Mapping[str, Any]


class Adapter(ABC):
    """A connection of another driver, with methods like those of an asyncpg connection.

    The methods of a blocking adapter are coroutines that never wait for an event loop.
    """

    manner: ClassVar[Literal["async", "blocking"]]

    @abstractmethod
    async def fetch(self, query: str, *params: Any) -> Sequence[Row]:
        """Run a statement and return its rows, or an empty list if it returns none."""

    @abstractmethod
    async def is_in_transaction(self) -> bool:
        """Return whether locks of a statement are held until the caller ends a transaction."""

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
    """Run a coroutine that uses a blocking adapter, and return its result.

    No event loop is needed: the coroutine never waits, so a single step completes it.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(
        "A call on a blocking connection tried to wait in an event loop, but a blocking "
        "connection has none. Use an async connection for this call."
    )
