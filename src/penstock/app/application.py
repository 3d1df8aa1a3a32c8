"""The interface of applications on an app, which add tables, tasks, queues and routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from penstock.config import Database
from penstock.groups.snapshots import Present
from penstock.tasks import Task

# Reads subjects of one kind by id, as far as a tenant may see them. The tenant None sees all.
ReadSnapshots: TypeAlias = Callable[[str | None, Sequence[str]], Awaitable[dict[str, Present]]]


class Application(Protocol):
    """An application on an app, with tables and routes beside those of the queue."""

    name: str

    async def migrate(self, database: Database) -> list[str]:
        """Run its pending migrations, and return their names."""

    async def is_there(self, database: Database) -> bool:
        """Return whether the database has its tables."""

    async def renamed(self, database: Database) -> Mapping[str, str]:
        """Return its schema and the schema's former name, if functions still refer to that."""

    def tasks(self) -> Iterable[Task[Any, Any]]:
        """Return its tasks. Its routes and code enqueue them; callers of the HTTP API cannot."""

    def queues(self, children: int) -> dict[str, int]:
        """Return its queues with their slots, for a worker with so many child processes."""

    def router(self) -> Any:
        """Return its routes for the HTTP API: an APIRouter of FastAPI that includes no others."""

    def serving(self) -> AbstractAsyncContextManager[Any]:
        """Open what its routes need, while the HTTP API runs. They find it by the name."""

    def subjects(self, opened: Any) -> Mapping[str, ReadSnapshots]:
        """Return, for each kind of subject with live updates, how to read some by their ids."""
