"""The interface of applications, which add tables, tasks, queues and routes to an app."""

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
    """An application that is installed on an app, with tables and routes of its own."""

    name: str

    async def migrate(self, database: Database) -> list[str]:
        """Run the application's pending migrations, and return their names."""

    async def is_there(self, database: Database) -> bool:
        """Return whether the database has the application's tables."""

    async def renamed(self, database: Database) -> Mapping[str, str]:
        """Return the application's schema, mapped to its former name.

        Return an empty mapping unless functions still refer to the former name.
        """

    def tasks(self) -> Iterable[Task[Any, Any]]:
        """Return the application's tasks.

        Only its own routes and code can enqueue them. Callers of the HTTP API cannot.
        """

    def queues(self, children: int) -> dict[str, int]:
        """Return the application's queues with their slots.

        `children` is the number of processes that the worker has for isolated jobs.
        """

    def router(self) -> Any:
        """Return the application's routes for the HTTP API.

        They are in an APIRouter of FastAPI that includes no other routers.
        """

    def serving(self) -> AbstractAsyncContextManager[Any]:
        """Open what the application's routes need, for as long as the HTTP API runs.

        The routes find the opened object by the name of the application.
        """

    def subjects(self, opened: Any) -> Mapping[str, ReadSnapshots]:
        """Return a function for each kind of subject with live updates.

        The function reads some subjects of this kind by their ids.
        """
