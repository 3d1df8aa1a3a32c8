"""Install knowledge in an app: its tables, tasks, schedules, routes and settings."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from difflib import get_close_matches
from functools import cache
from typing import Any

from penstock import Database, Penstock, Task
from penstock.net import guard
from penstock.storage import location
from penstock.telemetry import JobFinished
from penstock_apps.knowledge import tasks
from penstock_apps.knowledge.ingest.embed_calls import EMBED_QUEUE, MODEL_LIMITS
from penstock_apps.knowledge.ingest.finish import FailureListener
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance.delete import MAINTENANCE_QUEUE
from penstock_apps.knowledge.maintenance.sweep import sweep, sweep_storage
from penstock_apps.knowledge.runtime import KnowledgeRuntime, open_runtime, open_worker_runtime
from penstock_apps.knowledge.settings import (
    DEFAULT_TENANT,
    FETCH_PREFIX,
    PREFIX,
    STORAGE_VARIABLE,
    Settings,
    variable_of,
)
from penstock_apps.knowledge.store import schema

logger = logging.getLogger("penstock.knowledge")

MAX_TOKENS_PER_SECOND = 10_000_000
SWEEP_INTERVAL_S = 60.0
STORAGE_SWEEP_INTERVAL_S = 3600.0


class Knowledge:
    """Ingests documents into an app's database and searches them.

    app = Penstock()
    knowledge = Knowledge(app)

    async with app, knowledge.opened() as runtime:
        library = knowledge.of(runtime, "acme")
        base = await library.make_base("handbook")
    """

    name = "knowledge"

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._settings = check_environment()
        app.resource(KnowledgeRuntime)(open_worker_runtime)
        app.schedule("knowledge.sweep", sweep, every=SWEEP_INTERVAL_S)
        app.schedule("knowledge.sweep_storage", sweep_storage, every=STORAGE_SWEEP_INTERVAL_S)
        app.events.subscribe(
            JobFinished, FailureListener(app, tasks.INGEST_TASK_NAMES, self._settings)
        )
        app.install(self)

    async def migrate(self, database: Database) -> list[str]:
        """Bring the tables up to date, make the queues fair, and give models a budget."""
        names = await schema.migrate(database)
        if not schema.MIGRATION_NAMES.isdisjoint(names):
            async with Penstock(database.url, schema=database.schema) as app:
                for queue in tasks.QUEUES:
                    await app.set_queue(queue, fair=True)
                # No model reaches this rate, but a 429 answer can close the budget for a while.
                await app.set_limit(
                    MODEL_LIMITS, rate=MAX_TOKENS_PER_SECOND, burst=MAX_TOKENS_PER_SECOND
                )
        return names

    async def is_there(self, database: Database) -> bool:
        """Return whether the database has the tables of knowledge."""
        return await schema.is_there(database)

    async def renamed(self, database: Database) -> dict[str, str]:
        """Return {schema: former name} if the schema was renamed and its functions were not.

        Otherwise, return an empty dict.
        """
        return await schema.renamed(database)

    def tasks(self) -> list[Task[Any, Any]]:
        """Return the tasks, with the limits and retries of the settings."""
        return tasks.configured_tasks(self._settings)

    def queues(self, children: int) -> dict[str, int]:
        """Return the slots of each queue, for a worker with this many child processes.

        At least two large files are read at once, so that a slow one does not block the others.
        """
        return {
            tasks.SMALL_QUEUE: children,
            tasks.LARGE_QUEUE: max(2, children // 2),
            EMBED_QUEUE: 4,
            MAINTENANCE_QUEUE: 4,
        }

    def router(self) -> Any:
        """Return the routes of the HTTP API."""
        from penstock_apps.knowledge.http import router

        return router()

    def serving(self) -> AbstractAsyncContextManager[KnowledgeRuntime]:
        """Open the runtime that the routes use while the service runs."""
        return self.opened()

    def subjects(self, opened: KnowledgeRuntime) -> Mapping[str, Any]:
        """Return the subjects that can be watched live: sources and documents."""
        from penstock_apps.knowledge.http.sources import subjects

        return subjects(opened)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[KnowledgeRuntime]:
        """Open the runtime that all calls need; raise TablesMissing or TablesRenamed."""
        await self._app.open()
        await schema.check(self._app.opened_database)
        async with open_runtime(self._app, self._app.opened_database) as runtime:
            yield runtime

    def of(
        self,
        runtime: KnowledgeRuntime,
        tenant: str = DEFAULT_TENANT,
        *,
        confined: bool = False,
        requested_by: str | None = None,
    ) -> Library:
        """Return the library of one tenant.

        If `requested_by` is given, the library enqueues jobs on behalf of that person.
        """
        return Library(runtime, tenant, confined=confined, requested_by=requested_by)


KNOWN_VARIABLES = (
    *map(variable_of, Settings.__struct_fields__),
    *(f"{STORAGE_VARIABLE}_{name}" for name in location.OPTION_SUFFIXES),
    *(f"{FETCH_PREFIX}_{name}" for name in guard.VARIABLE_SUFFIXES),
)


def check_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings; raise ConfigError for a bad value, and warn once of unknown variables.

    The variables that only some jobs read are checked as well, so that errors appear at the start.
    """
    settings = Settings.of(environment)
    location.StorageOptions.of(STORAGE_VARIABLE, environment)
    guard.Allowed.of(FETCH_PREFIX, environment)
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in KNOWN_VARIABLES:
            _warn_unknown(name)
    return settings


@cache
def _warn_unknown(name: str) -> None:
    # The prefix that all variables share would make any two look alike.
    own = {each.removeprefix(PREFIX): each for each in KNOWN_VARIABLES}
    nearest = get_close_matches(name.removeprefix(PREFIX).upper(), own, 1)
    meant = f" Did you mean {own[nearest[0]]}?" if nearest else ""
    logger.warning(
        "The variable %s is ignored: the knowledge application has no such setting.%s", name, meant
    )
