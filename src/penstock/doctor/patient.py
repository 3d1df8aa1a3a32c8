"""The patient: a database to be examined, which must not be hurt by it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, TypeVar

from penstock.doctor.code import Code
from penstock.doctor.limits import Limits
from penstock.sql import statement
from penstock.store import Connection
from penstock.store.bounded import bounded

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
        self.limits = limits
        self.clock = clock
        self.code = code

    def bounded(self) -> AbstractAsyncContextManager[None]:
        """A transaction for reading, which may take only so long."""
        return bounded(self.connection, self.limits.reading)

    async def ask(self, kind: Callable[..., T], name: str, *values: Any) -> list[T]:
        """Each row of a statement as a `kind`, whose fields are named like the columns."""
        async with self.bounded():
            rows = await self.connection.fetch(statement(name, self.schema), *values)
        return [kind(**row) for row in rows]
