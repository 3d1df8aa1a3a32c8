"""Where tasks and resources are found by name, in another process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from typing import Any

from penstock.config import Database, JobLog
from penstock.errors import Misuse
from penstock.isolation.child import find
from penstock.isolation.client import main_module
from penstock.isolation.protocol import Plan
from penstock.tasks import Registry, Task
from penstock.worker.children.messages import ChildSettings
from penstock.worker.run.resources import Opener, Resources

MAIN = "__main__"
LIFE = "penstock.worker.children.main:live"


class Imports:
    """The tasks that a child process can run: those it can find, with all that they need."""

    def __init__(self, tasks: Registry, resources: Resources) -> None:
        self._tasks = tasks
        self._openers = dict(resources)
        self.resources = {
            kind: (import_path(kind), import_path(opener))
            for kind, opener in self._openers.items()
            if _is_at(kind, import_path(kind)) and _is_at(opener, import_path(opener))
        }
        self.tasks = {
            task.name: place
            for task in tasks
            if task.settings.isolate is not False and (place := self._place(task))
        }

    def _place(self, task: Task[..., Any]) -> str | None:
        place = import_path(task.__wrapped__)
        found = _found(place)
        if not isinstance(found, Task) or not found.is_same(task) or self._lacks(task):
            return None
        return place if self._tasks.around(found).fn is task.fn else None

    def _lacks(self, task: Task[..., Any]) -> list[str]:
        """The resources that cannot be opened there."""
        needed = [kind for kind in task.settings.resources if kind in self._openers]
        return [kind.__name__ for kind in needed if kind not in self.resources]

    def check(self, tasks: Iterable[Task[..., Any]]) -> None:
        """Raise ConfigError for a task that is to run in child processes and cannot."""
        for task in tasks:
            if task.settings.isolate and task.name not in self.tasks:
                lacks = self._lacks(task)
                why = (
                    f"a child process opens its own {lacks[0]}: let a function at the top level of "
                    "a module do that, so that it can be imported"
                    if lacks
                    else "a child process imports its task: put it at the top level of a module, "
                    "under its own name"
                )
                raise Misuse(
                    f"The task {task.name} at {task.place} cannot run isolated, since {why}.",
                    "isolate",
                )

    @property
    def elsewhere(self) -> set[type[Any]]:
        """The resources that only child processes need."""
        inside, here = set[type[Any]](), set[type[Any]]()
        for task in self._tasks:
            (inside if task.settings.isolate else here).update(task.settings.resources)
        return inside - here

    def plan(
        self,
        worker: str,
        database: Database,
        park_limit: float,
        tracing: str | None,
        log: JobLog,
    ) -> Plan:
        """What a child process is to be."""
        given = ChildSettings(
            worker=worker,
            database=database,
            park_limit=park_limit,
            log_level=logging.getLogger().getEffectiveLevel(),
            registry=import_path(type(self._tasks)),
            tasks=self.tasks,
            resources=list(self.resources.values()),
            tracing=tracing,
            log=log,
        )
        return Plan(
            life=LIFE,
            given=given,
            modules=self.modules,
            path=list(sys.path),
            before=before_imports(),
            main=main_module() if self.is_in_main else {},
        )

    @property
    def modules(self) -> list[str]:
        """What a child imports; not the program itself, which is another there."""
        places = [*self.tasks.values(), *(one for pair in self.resources.values() for one in pair)]
        return sorted({place.partition(":")[0] for place in places} - {MAIN})

    @property
    def is_in_main(self) -> bool:
        return any(place.startswith(f"{MAIN}:") for place in self.tasks.values())


def before_imports() -> list[str]:
    """What a child calls before it imports: Django's models need its settings first."""
    django = sys.modules.get("django.apps")
    is_ready = django is not None and django.apps.ready
    return ["django:setup"] if is_ready and "DJANGO_SETTINGS_MODULE" in os.environ else []


def import_path(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"


def _found(place: str) -> Any:
    module, _, path = place.partition(":")
    if module not in sys.modules or "<locals>" in path:
        return None
    if module == MAIN and not main_module():
        return None  # It was typed in, or given with -c: there is nothing to import.
    try:
        return find(place)
    except AttributeError:
        return None


def _is_at(thing: type[Any] | Opener, place: str) -> bool:
    return _found(place) is thing
