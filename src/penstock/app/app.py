"""The class Penstock: the app that a program creates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self, TypeAlias, TypeVar, overload

from penstock.app.application import Application
from penstock.app.client import Client
from penstock.app.sync import SyncPenstock
from penstock.config import Database, JobLog, Liveness, Pace, Stopping, Upkeep
from penstock.connect.connector import CALLS_TIMEOUT_S, Connector
from penstock.connect.loops import AppLoop, BlockingPortal
from penstock.connect.scope import CallExecutor
from penstock.connect.tracing import Tracing
from penstock.insights import Insights
from penstock.local_pool import LocalPool, LocalPools
from penstock.local_pool.pool import DEFAULT_POOL_SLOTS, DEFAULT_POOL_WORKERS
from penstock.store import Pool
from penstock.store.schedules import ScheduleStatements
from penstock.tasks import (
    CatchUp,
    Overlap,
    Registry,
    Request,
    Task,
    TaskDecorator,
    Timetable,
    Wins,
    declare,
)
from penstock.worker import Resources, Worker
from penstock.worker.children.pool import parse_children
from penstock.worker.limits.slots import DEFAULT_SLOTS, parse_queues
from penstock.worker.tenants import TenantFilter

MIGRATE_AGAIN = "Run the migration again: it skips what has been applied already."
# How long closing an app waits until the last notification is sent.
NOTIFY_TIMEOUT_S = 0.5
# The minimum of child processes with an application.
MIN_CHILDREN_WITH_APPLICATION = 3

R = TypeVar("R")
Opener: TypeAlias = (
    Callable[[], AbstractAsyncContextManager[R]]
    | Callable[[Database], AbstractAsyncContextManager[R]]
)


class Penstock(Client):
    """An app: its tasks, its connections to Postgres, and its workers.

    app = Penstock()                        # an embedded Postgres in ./.penstock
    app = Penstock("postgresql://…")        # or yours

    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    async with app:
        job = await app.enqueue(greet, "Ada")
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        data_dir: str | Path | None = None,
        schema: str | None = None,
        pool_size: int = 8,
        listen_url: str | None = None,
        prepared_statements: bool | None = None,
        call_timeout: float | None = None,
        include: Iterable[ModuleType | Task[Any, Any]] = (),
    ) -> None:
        folder = None if data_dir is None else str(data_dir)
        database = Database.of(
            database_url,
            data_dir=folder,
            schema=schema,
            pool_size=pool_size,
            listen_url=listen_url,
            prepared_statements=prepared_statements,
            call_timeout=call_timeout,
        )
        super().__init__(self._make_connector(database))
        self._portal = BlockingPortal(self._connector, self.close)
        self.tasks = Registry()
        self.events = self._connector.events
        self._pools = LocalPools(self.events, lambda: AppLoop(self._connector, self._portal))
        self._portal.before_close = self._pools.settle_blocking
        self.resources = Resources()
        self.timetable = Timetable()
        self.applications: list[Application] = []
        self.task = TaskDecorator(register=self.tasks.add)
        self.include(*include)

    def _make_connector(self, database: Database) -> Connector:
        return Connector(database)

    @property
    def database(self) -> Database:
        return self._connector.database

    @property
    def opened_database(self) -> Database:
        """The database settings with the URL in use, once the app is open."""
        return self._connector.opened

    @property
    def url(self) -> str:
        """The database's URL. That of an embedded server is known once the app is open."""
        return self._connector.url

    def trace_with(self, tracing: Tracing | None) -> None:
        """Trace every job from its enqueue to its end; None stops tracing.

        `penstock.integrations.otel.tracing(app)` does this for OpenTelemetry.
        """
        self._connector.tracing = tracing

    def use_database(
        self,
        url: str | None = None,
        *,
        data_dir: str | Path | None = None,
        schema: str | None = None,
        listen_url: str | None = None,
    ) -> None:
        """Change the database of an app that is not open.

            app.use_database("postgresql://localhost/shop_test")

        Settings that you leave out do not change. A URL replaces a folder, and a folder replaces a
        URL. Both remove the `listen_url`.
        """
        changes: dict[str, Any] = {}
        if url is not None:
            changes |= {"url": url, "data_dir": None, "listen_url": None}
        elif data_dir is not None:
            changes |= {"url": None, "data_dir": str(data_dir), "listen_url": None}
        if schema is not None:
            changes["schema"] = schema
        if listen_url is not None:
            changes["listen_url"] = listen_url
        if changes:
            self._connector.set_database(replace(self.database, **changes))

    def include(self, *sources: ModuleType | Task[Any, Any] | Iterable[Task[Any, Any]]) -> None:
        """Register tasks made with `penstock.task`, one by one or all tasks of a module."""
        self.tasks.include(*sources)

    def install(self, application: Application) -> None:
        """Add the tables, routes and tasks of an application to this app."""
        self.applications.append(application)
        self.tasks.add_internal(*application.tasks())
        self._connector.migrations.append(application.migrate)

    def uninstall(self) -> None:
        """Remove all applications, for a database in which their tables cannot be created."""
        self.applications.clear()
        self._connector.migrations.clear()

    # The overlap is intended: a class counts as a type, even if calling it could open one.
    @overload
    def resource(  # type: ignore[overload-overlap]
        self, kind: type[R], /
    ) -> Callable[[Opener[R]], Opener[R]]: ...
    @overload
    def resource(self, opener: Opener[R], /) -> Opener[R]: ...

    def resource(self, given: Any, /) -> Any:
        """Decorate a function that opens a typed resource for the workers.

            @app.resource
            @asynccontextmanager
            async def http() -> AsyncIterator[httpx.AsyncClient]: ...

        `@app.resource(Kind)` names the type if the annotation does not. An opener that takes an
        argument gets the `Database` of the worker, also in child processes.
        """
        return self.resources.decorator(given)

    def schedule(
        self,
        name: str,
        what: Request[Any] | Task[..., Any],
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        timezone: str = "UTC",
        jitter: float | timedelta = 0.0,
        overlap: Overlap = "skip",
        catch_up: CatchUp = "skip",
        on_start: bool = False,
        wins: Wins = "runtime",
    ) -> None:
        """Declare a job that is enqueued again and again, by cron or by interval.

            app.schedule("report", report.prepare("all"), cron="0 3 * * *", timezone="Asia/Tokyo")
            app.schedule("refresh", refresh, every=300)

        A worker stores the schedule when it starts. The schedule fires while at least one running
        worker declares it.
        """
        self.timetable.add(
            declare(
                name,
                what,
                cron=cron,
                every=every,
                timezone=timezone,
                jitter=jitter,
                overlap=overlap,
                catch_up=catch_up,
                on_start=on_start,
                wins=wins,
            )
        )

    async def sync_schedules(self) -> list[str]:
        """Store the schedules of this code, as a worker does when it starts.

        Return the names of the schedules that changed.
        """
        return await self._execute(
            lambda on: ScheduleStatements(self.store).sync(on, list(self.timetable))
        )

    async def open(self) -> Self:
        """Connect now, and start the embedded Postgres if there is no other database.

        If you do not call `open`, the first other call connects.
        """
        await self._connector.open()
        return self

    async def pool(self) -> Pool:
        """Return the connection pool of this app, for statements of your own."""
        return await self._connector.open()

    async def close(self) -> None:
        """Close the app. Calls in local pools have up to five seconds to end.

        Other running calls have ten seconds to end, or `call_timeout` if that is shorter.
        """
        await self._pools.close()
        loop = asyncio.get_running_loop()
        ends = loop.time() + min(CALLS_TIMEOUT_S, self._connector.database.call_timeout)
        await self._wake.close(NOTIFY_TIMEOUT_S)
        await self._connector.close(max(ends - loop.time(), 0.0))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def sync(self) -> SyncPenstock:
        """Blocking versions of the app's calls, for code that does not await. See SyncClient."""
        return SyncPenstock(self, self._portal)

    async def migrate(self) -> list[str]:
        """Run all pending migrations, and return their names."""
        if self.database.url is None:
            await self.open()
        with self._connector.translate_errors(MIGRATE_AGAIN, is_sent=True):
            return await self._connector.migrate()

    def _runnable_tasks(self) -> Registry:
        """Return the tasks that a worker of this app runs."""
        return self.tasks

    async def insights(self) -> Insights:
        """Return an object that reads the state of queues, workers and jobs, for dashboards."""
        await self._connector.open()
        return Insights(self.store, CallExecutor(self))

    def worker(
        self,
        queues: Mapping[str, int] | Iterable[str] | str | None = None,
        *,
        tenants: Iterable[str] | str | None = None,
        except_tenants: Iterable[str] | str = (),
        children: int | None = None,
        name: str | None = None,
        liveness: Liveness | None = None,
        pace: Pace | None = None,
        stopping: Stopping | None = None,
        upkeep: Upkeep | None = None,
        log: JobLog | None = None,
    ) -> Worker:
        """Return a worker to run inside this program.

        async with app.worker(queues={"documents": 50, "email": 5}):
            ...

        `queues` maps names to slots. By default the worker serves the queues that the app's tasks
        and schedules name when it starts, or `default`, with 100 slots each. It adds the queues of
        schedules that are created or changed later, if the app has their task.

        On fair queues whose lanes are tenants, `tenants` restricts the worker to these tenants, and
        `except_tenants` excludes some. `children` is the number of processes for isolated jobs, by
        default one for each processor, and at least three with an application.
        """
        return Worker(
            self._connector,
            self._runnable_tasks(),
            self.events,
            self.resources,
            self.timetable,
            self._pools,
            queues=self._named_queues if queues is None else parse_queues(queues),
            tenants=TenantFilter.of(tenants, except_tenants),
            name=name,
            liveness=liveness or Liveness(),
            pace=pace or Pace(),
            stopping=stopping or Stopping(),
            upkeep=upkeep or Upkeep(),
            log=log,
            children=self._children_for(children),
            scheduled=self._scheduled_queues if queues is None else None,
        )

    def _children_for(self, children: int | None) -> int | None:
        """Return the number of child processes, by default at least three with an application.

        The two slow jobs of an application then leave one process for other jobs.
        """
        if children is not None or not self.applications:
            return children
        return max(MIN_CHILDREN_WITH_APPLICATION, parse_children(None))

    def _named_queues(self, children: int) -> dict[str, int]:
        """Return the queues that tasks, schedules and applications name, with their slots.

        `children` is the number of processes that the worker has for isolated jobs.
        """
        queues = dict.fromkeys(sorted(self.declared_queues) or ["default"], DEFAULT_SLOTS)
        for application in self.applications:
            queues |= application.queues(children)
        return queues

    async def _scheduled_queues(self) -> set[str]:
        """Return the queues of schedules in the database whose tasks this app has."""
        known = {task.name for task in self._runnable_tasks()}
        return {entry.queue for entry in await self.schedules() if entry.task in known}

    @property
    def declared_queues(self) -> set[str]:
        """The queues that this code's tasks and schedules name."""
        named = {task.settings.defaults.queue for task in self.tasks}
        return named | {declared.request.options.queue for declared in self.timetable}

    def local_pool(
        self,
        name: str = "local",
        *,
        workers: int = DEFAULT_POOL_WORKERS,
        slots: int = DEFAULT_POOL_SLOTS,
    ) -> LocalPool:
        """Return a pool that runs small calls in this process. They are not jobs, and may be lost.

            app.local_pool().submit(track, user, "opened")

        Each call with the same name returns the same pool. When the app closes, it drains the pool.
        """
        return self._pools.get(name, workers, slots)
