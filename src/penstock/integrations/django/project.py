"""The one Penstock app of a Django project, its connection, and what surrounds each handler."""

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

# Django's connections that outlive a job; a thread ends without closing its own.
_kept: set[Any] = set()


class ProjectTasks(Registry):
    """Tasks whose handlers run as Django's code expects; what users call directly stays as is."""

    def add(self, *tasks: AnyTask) -> None:
        super().add(*map(self.wrap, tasks))

    def wrap(self, task: AnyTask) -> AnyTask:
        known = self.find(task.name)
        return known if known is not None and known.is_same(task) else surrounded(task)


def surrounded(task: AnyTask) -> AnyTask:
    """The task with Django's care around its handler."""
    return task.handled_by(_async(task.fn) if task.is_async else _blocking(task.fn))


def surround(call: SubmittedCall) -> None:
    """The same care around a call of a local pool."""
    call.fn = _async(call.fn) if call.is_async else _blocking(call.fn)


def _blocking(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    def run(*args: Any, **kwargs: Any) -> Any:
        with usable_connections():
            return handler(*args, **kwargs)

    return run


def _async(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    async def run(*args: Any, **kwargs: Any) -> Any:
        async with own_thread():
            return await handler(*args, **kwargs)

    return run


@contextmanager
def usable_connections() -> Iterator[None]:
    """No connection of this thread is one that is past its time, or broken."""
    close_old_connections()
    reset_queries()
    try:
        yield
    finally:
        close_old_connections()
        _kept.update(each for each in connections.all(initialized_only=True) if each.connection)


def close_kept_connections() -> None:
    """Close what CONN_MAX_AGE has kept open in the threads of workers that are gone."""
    while _kept:
        connection = _kept.pop()
        connection.inc_thread_sharing()
        connection.close()


@asynccontextmanager
async def own_thread() -> AsyncIterator[None]:
    """What is awaited of the ORM runs in a thread of this job's own, as in a request under ASGI.

    Otherwise all async jobs of the process would wait for one thread. It costs nothing where the
    ORM is not used.
    """
    async with ThreadSensitiveContext() as context:
        try:
            yield
        finally:
            if context in SyncToAsync.context_to_thread_executor:
                await sync_to_async(connections.close_all)()


NOT_ASKED_YET = "postgresql://"


class ProjectConnector(Connector):
    """Leads where Django's connection leads at the moment it is opened: tests have their own."""

    def __init__(self, database: Database, alias: str) -> None:
        super().__init__(database)
        self._alias = alias
        self._is_led_elsewhere = False

    def set_database(self, database: Database) -> None:
        super().set_database(database)
        self._is_led_elsewhere = database.url not in (NOT_ASKED_YET, self._address)

    @property
    def url(self) -> str:
        self._follow()
        return super().url

    async def pool(self) -> Pool:
        self._follow()
        return await super().pool()

    async def _close_others(self) -> None:
        """Close what handlers have kept open."""
        # Python may be ending: then it starts no more threads, and takes the connections along.
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
    """The project's app, made on first use."""
    return DjangoPenstock(ProjectSettings.read())


class DjangoPenstock(Penstock):
    """An app whose database is one of Django's, and whose handlers may use the ORM.

    from penstock.integrations.django import app
    """

    def __init__(self, settings: ProjectSettings) -> None:
        self.settings = settings
        super().__init__(NOT_ASKED_YET, schema=settings.schema)
        self.tasks = ProjectTasks()
        self.task = TaskDecorator(register=self.tasks.add)
        self._pools.prepare_calls_with(surround)

    def _make_connector(self, database: Database) -> Connector:
        return ProjectConnector(database, self.settings.database)

    @property
    def database(self) -> Database:
        """Where Django's connection leads now: tests have a database of their own."""
        return self._connector.opened

    @property
    def connection(self) -> Any:
        """Django's connection to the queue's database, of this thread."""
        return connections[self.settings.database]

    @property
    def sync(self) -> SyncProject:
        """The calls for code that blocks, on Django's connection: part of its transaction."""
        return SyncProject(self, self._portal)

    def _runnable_tasks(self) -> Registry:
        """The app's tasks, and those of django.tasks that have been imported by now."""
        if task_backends():
            from penstock.integrations.django.tasks.backend import as_penstock, known_tasks

            self.tasks.add(*map(as_penstock, known_tasks()))
        return super()._runnable_tasks()

    def _named_queues(self, children: int) -> dict[str, int]:
        """Those of PENSTOCK["QUEUES"], else those that tasks, schedules and backends name."""
        if self.settings.queues is not None:
            return self.settings.queues
        return super()._named_queues(children)

    async def _scheduled_queues(self) -> set[str]:
        return set() if self.settings.queues is not None else await super()._scheduled_queues()

    @property
    def declared_queues(self) -> set[str]:
        return super().declared_queues | set(queues_of_backends())


class SyncProject(SyncPenstock):
    """The app's calls on Django's connection of this thread.

    with transaction.atomic():
        order = Order.objects.create(item="kettle")
        app.sync.enqueue(send_receipt, order.pk)
    """

    def __init__(self, app: DjangoPenstock, portal: BlockingPortal) -> None:
        super().__init__(app, portal)
        self._connection = app.connection
        self._client, self._run = app.on(adapt(self._connection, "blocking")), drive

    def wait(self, job: str | Enqueued[T], timeout: float | timedelta | None = None) -> T:
        """The job's result once it is done; refused inside a transaction, where it never is."""
        if self._connection.in_atomic_block:
            raise RuntimeError(
                "Inside transaction.atomic() nothing can be waited for: a job that it enqueues "
                "begins after its commit. Wait behind the block."
            )
        return self._portal.run(self._app.wait(job, timeout))
