"""The Penstock app of a Django project.

The app uses Django's database, and manages Django's connections for handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache, wraps
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries

from penstock.app.app import Penstock
from penstock.app.sync import SyncPenstock
from penstock.config import Database
from penstock.connect.connector import Connector
from penstock.connect.enqueue import Enqueued
from penstock.connect.loops import BlockingPortal
from penstock.integrations.django.connections import address_of
from penstock.integrations.django.queues import queues_of_backends
from penstock.integrations.django.settings import ProjectSettings, task_backends
from penstock.local_pool.call import SubmittedCall
from penstock.store import Pool, adapt, drive
from penstock.tasks import Registry, Task, TaskDecorator

AnyTask = Task[..., Any]

# Django's connections that are still open after a job. A thread that ends does not close its own.
_kept_connections: set[Any] = set()


class ProjectTasks(Registry):
    """The tasks of a project's app, with handlers that manage Django's connections.

    Only the registered tasks are wrapped. A task that you call directly runs as it is.
    """

    def add(self, *tasks: AnyTask) -> None:
        super().add(*map(self.wrap, tasks))

    def wrap(self, task: AnyTask) -> AnyTask:
        known = self.find(task.name)
        return known if known is not None and known.is_same(task) else wrap_task(task)


def wrap_task(task: AnyTask) -> AnyTask:
    """Return the task with a handler that manages Django's connections."""
    return task.handled_by(_wrap_async(task.fn) if task.is_async else _wrap_sync(task.fn))


def wrap_call(call: SubmittedCall) -> None:
    """Wrap the function of a local pool's call, so that it manages Django's connections."""
    call.fn = _wrap_async(call.fn) if call.is_async else _wrap_sync(call.fn)


def _wrap_sync(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    def run(*args: Any, **kwargs: Any) -> Any:
        with usable_connections():
            return handler(*args, **kwargs)

    return run


def _wrap_async(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    async def run(*args: Any, **kwargs: Any) -> Any:
        async with own_thread():
            return await handler(*args, **kwargs)

    return run


@contextmanager
def usable_connections() -> Iterator[None]:
    """Close old and broken connections of this thread, before the block and after it."""
    close_old_connections()
    reset_queries()
    try:
        yield
    finally:
        close_old_connections()
        opened = connections.all(initialized_only=True)
        _kept_connections.update(each for each in opened if each.connection)


def close_kept_connections() -> None:
    """Close the connections that CONN_MAX_AGE has kept open in threads of former workers."""
    while _kept_connections:
        connection = _kept_connections.pop()
        connection.inc_thread_sharing()
        connection.close()


@asynccontextmanager
async def own_thread() -> AsyncIterator[None]:
    """Run the ORM calls of an async job in a thread of its own, like a request under ASGI.

    Otherwise all async jobs of the process would share one thread. Jobs that do not use the ORM pay
    nothing.
    """
    async with ThreadSensitiveContext() as context:
        try:
            yield
        finally:
            if context in SyncToAsync.context_to_thread_executor:
                await sync_to_async(connections.close_all)()


UNKNOWN_URL = "postgresql://"


class ProjectConnector(Connector):
    """Connects to the database that Django uses when the app is opened, such as a test database."""

    def __init__(self, database: Database, alias: str) -> None:
        super().__init__(database)
        self._alias = alias
        self._is_led_elsewhere = False

    def set_database(self, database: Database) -> None:
        super().set_database(database)
        self._is_led_elsewhere = database.url not in (UNKNOWN_URL, self._address)

    @property
    def url(self) -> str:
        self._follow()
        return super().url

    async def pool(self) -> Pool:
        self._follow()
        return await super().pool()

    async def _close_others(self) -> None:
        """Close the connections that handlers have left open."""
        # If Python is ending, it starts no more threads, and the connections end with it.
        with suppress(RuntimeError):
            await asyncio.to_thread(close_kept_connections)

    def _follow(self) -> None:
        if self._pool is None and not self._is_led_elsewhere:
            self.database = replace(self.database, url=self._address)

    @property
    def _address(self) -> str:
        return address_of(connections[self._alias])


T = TypeVar("T")


@cache
def project_app() -> DjangoPenstock:
    """Return the project's app, which is made at the first call."""
    return DjangoPenstock(ProjectSettings.read())


class DjangoPenstock(Penstock):
    """The app of a Django project: its database is one of Django's, and handlers may use the ORM.

    from penstock.integrations.django import app
    """

    def __init__(self, settings: ProjectSettings) -> None:
        self.settings = settings
        super().__init__(UNKNOWN_URL, schema=settings.schema)
        self.tasks = ProjectTasks()
        self.task = TaskDecorator(register=self.tasks.add)
        self._pools.prepare_calls_with(wrap_call)

    def _make_connector(self, database: Database) -> Connector:
        return ProjectConnector(database, self.settings.database)

    @property
    def database(self) -> Database:
        """The database that Django uses now. During tests it is the test database."""
        return self._connector.opened

    @property
    def connection(self) -> Any:
        """This thread's Django connection to the queue's database."""
        return connections[self.settings.database]

    @property
    def sync(self) -> SyncProject:
        """Blocking versions of the app's async methods, as part of Django's transaction."""
        return SyncProject(self, self._portal)

    def _runnable_tasks(self) -> Registry:
        """Return the app's tasks, and all tasks of django.tasks that are imported by now."""
        if task_backends():
            from penstock.integrations.django.tasks.backend import as_penstock, known_tasks

            self.tasks.add(*map(as_penstock, known_tasks()))
        return super()._runnable_tasks()

    def _named_queues(self, children: int) -> dict[str, int]:
        """Return PENSTOCK["QUEUES"] if it is set, else the queues of tasks and task backends."""
        if self.settings.queues is not None:
            return self.settings.queues
        return super()._named_queues(children)

    async def _scheduled_queues(self) -> set[str]:
        return set() if self.settings.queues is not None else await super()._scheduled_queues()

    @property
    def declared_queues(self) -> set[str]:
        return super().declared_queues | set(queues_of_backends())


class SyncProject(SyncPenstock):
    """Blocking versions of the app's async methods, on this thread's Django connection.

    with transaction.atomic():
        order = Order.objects.create(item="kettle")
        app.sync.enqueue(send_receipt, order.pk)
    """

    def __init__(self, app: DjangoPenstock, portal: BlockingPortal) -> None:
        super().__init__(app, portal)
        self._connection = app.connection
        self._client, self._run = app.on(adapt(self._connection, "blocking")), drive

    def wait(self, job: str | Enqueued[T], timeout: float | timedelta | None = None) -> T:
        """Wait until a job is done, and return its result.

        Raises RuntimeError inside a transaction, because a job that is enqueued there begins only
        after the commit.
        """
        if self._connection.in_atomic_block:
            raise RuntimeError(
                "You cannot wait inside transaction.atomic(): a job that it enqueues begins only "
                "after the commit. Wait after the block."
            )
        return self._portal.run(self._app.wait(job, timeout))
