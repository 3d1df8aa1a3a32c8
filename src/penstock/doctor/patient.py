"""The patient: a database to be examined, which must not be hurt by it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, TypeVar

from penstock.doctor.code import Code
from penstock.doctor.limits import Limits
from penstock.store import Connection, Store
from penstock.store.bounded import BoundedReader

T = TypeVar("T")
Clock = Callable[[], datetime]


def local_time() -> datetime:
    """What this machine takes for the time."""
    return datetime.now(UTC)


class Patient:
    """A connection to the database, and all that checks may ask of it."""

    def __init__(
        self,
        connection: Connection,
        url: str,
        schema: str,
        limits: Limits,
        *,
        clock: Clock = local_time,
        code: Code | None = None,
    ) -> None:
        self.connection = connection
        self.url = url
        self.schema = schema
        self.store = Store(schema)
        self.limits = limits
        self.clock = clock
        self.code = code
        self._reader = BoundedReader(self.store, connection, limits.reading)

    async def ask(self, kind: Callable[..., T], statement: str, *values: Any) -> list[T]:
        """Each row of a statement as a `kind`, whose fields are named like the columns."""
        return [kind(**row) for row in await self._reader.rows(statement, *values)]

    def bounds(self) -> AbstractAsyncContextManager[Connection]:
        """The connection in a transaction for reading, which may take only so long."""
        return self._reader.bounds()
