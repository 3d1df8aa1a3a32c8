"""Finds out which tasks and resources a child process can import, and under which path."""

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
from penstock.isolation.protocol import ChildPlan
from penstock.tasks import Registry, Task
from penstock.worker.children.messages import ChildSettings
from penstock.worker.run.resources import Opener, Resources

MAIN = "__main__"
MAIN_LOOP = "penstock.worker.children.main:run_child"


class Imports:
    """The tasks that a child process can import, with all resources that they need."""

    def __init__(self, tasks: Registry, resources: Resources) -> None:
        self._tasks = tasks
        self._openers = dict(resources)
        self.resources = {
            kind: (import_path(kind), import_path(opener))
            for kind, opener in self._openers.items()
            if _is_at_path(kind, import_path(kind)) and _is_at_path(opener, import_path(opener))
        }
        self.tasks = {
            task.name: path
            for task in tasks
            if task.settings.isolate is not False and (path := self._find_path(task))
        }

    def _find_path(self, task: Task[..., Any]) -> str | None:
        path = import_path(task.__wrapped__)
        loaded = _load(path)
        if (
            not isinstance(loaded, Task)
            or not loaded.is_same(task)
            or self._missing_resources(task)
        ):
            return None
        return path if self._tasks.wrap(loaded).fn is task.fn else None

    def _missing_resources(self, task: Task[..., Any]) -> list[str]:
        """Return the names of the task's resources that a child could not open."""
        needed = [kind for kind in task.settings.resources if kind in self._openers]
        return [kind.__name__ for kind in needed if kind not in self.resources]

    def check(self, tasks: Iterable[Task[..., Any]]) -> None:
        """Raise an error for a task that must run in child processes and cannot."""
        for task in tasks:
            if task.settings.isolate and task.name not in self.tasks:
                missing = self._missing_resources(task)
                why = (
                    f"a child process opens the resource {missing[0]} itself, and must import the "
                    "function that does so: define that function at the top level of a module"
                    if missing
                    else "a child process must import the task: define it at the top level of a "
                    "module, under its own name"
                )
                raise Misuse(
                    f"The task {task.name} at {task.place} cannot run isolated, since {why}.",
                    "isolate",
                )

    @property
    def child_only_resources(self) -> set[type[Any]]:
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
    ) -> ChildPlan:
        """Return the plan for child processes: their imports, main loop and settings."""
        settings = ChildSettings(
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
        return ChildPlan(
            main_loop=MAIN_LOOP,
            settings=settings,
            modules=self.modules,
            path=list(sys.path),
            before=before_imports(),
            main=main_module() if self.is_in_main else {},
        )

    @property
    def modules(self) -> list[str]:
        """The modules that a child imports.

        `__main__` is left out, because in a child another module has that name.
        """
        paths = [*self.tasks.values(), *(path for pair in self.resources.values() for path in pair)]
        return sorted({path.partition(":")[0] for path in paths} - {MAIN})

    @property
    def is_in_main(self) -> bool:
        return any(path.startswith(f"{MAIN}:") for path in self.tasks.values())


def before_imports() -> list[str]:
    """Return the paths of the functions that a child calls before its imports.

    Django's models can only be imported once Django has its settings.
    """
    django = sys.modules.get("django.apps")
    is_ready = django is not None and django.apps.ready
    return ["django:setup"] if is_ready and "DJANGO_SETTINGS_MODULE" in os.environ else []


def import_path(target: Any) -> str:
    return f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', '')}"


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    if module not in sys.modules or "<locals>" in name:
        return None
    if module == MAIN and not main_module():
        return None  # The program was typed in, or passed with -c: it cannot be imported.
    try:
        return find(path)
    except AttributeError:
        return None


def _is_at_path(target: type[Any] | Opener, path: str) -> bool:
    return _load(path) is target
