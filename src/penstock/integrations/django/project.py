"""The one Penstock app of a Django project."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

from django.db import connections

from penstock.app import Penstock, SyncPenstock
from penstock.client import Enqueued, Link, Portal
from penstock.config import Database
from penstock.integrations.django.link import NOT_ASKED_YET, ProjectLink
from penstock.integrations.django.queues import queues_of_backends
from penstock.integrations.django.settings import ProjectSettings, task_backends
from penstock.integrations.django.surroundings import ProjectTasks, surround
from penstock.store import adapt, drive
from penstock.tasks import Registry, TaskDecorator

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
        self._pools.dress(surround)

    def _link_to(self, database: Database) -> Link:
        return ProjectLink(database, self.settings.database)

    @property
    def database(self) -> Database:
        """Where Django's connection leads now: tests have a database of their own."""
        return self._link.opened

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
            from penstock.integrations.django.tasks.known import as_penstock, known_tasks

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

    def __init__(self, app: DjangoPenstock, portal: Portal) -> None:
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
