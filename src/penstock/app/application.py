"""What an application that is built on an app brings along: tables, tasks, queues and routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from penstock.config import Database
from penstock.groups.snapshots import Present
from penstock.tasks import Task

# Subjects of a kind by their ids, as far as a tenant may see them; None sees all.
ReadSnapshots: TypeAlias = Callable[[str | None, Sequence[str]], Awaitable[dict[str, Present]]]


class Application(Protocol):
    """What is built on an app: tables and routes beside those of the queue."""

    name: str

    async def migrate(self, database: Database) -> list[str]:
        """Bring its tables up to date; the names of what was applied."""

    async def is_there(self, database: Database) -> bool:
        """Whether the database has its tables."""

    async def renamed(self, database: Database) -> Mapping[str, str]:
        """Its schema and the former name of that, if its functions still look for that."""

    def tasks(self) -> Iterable[Task[Any, Any]]:
        """Its tasks. Callers over HTTP cannot enqueue them; its routes do, and code."""

    def queues(self, children: int) -> dict[str, int]:
        """Its queues with their slots, for a worker with so many processes for isolated jobs."""

    def router(self) -> Any:
        """Its routes, for the HTTP API: an APIRouter of FastAPI's that includes no others."""

    def serving(self) -> AbstractAsyncContextManager[Any]:
        """What its routes need, open while the HTTP API is; they find it by the name."""

    def subjects(self, opened: Any) -> Mapping[str, ReadSnapshots]:
        """What of it can be watched live, by kind: how to look at some, by their ids."""
