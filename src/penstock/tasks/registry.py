"""The tasks an app knows, by name. Nothing is ever imported because a row names it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from penstock.errors import DuplicateTask, Misuse, UnknownTask
from penstock.tasks.request import Request
from penstock.tasks.task import Task


def not_a_task(who: str, given: Any) -> str:
    """Why this is no task, for an error of `who` wants one: "enqueue", "A schedule"."""
    takes = f"{who} takes a task"
    if inspect.iscoroutine(given):
        given.close()  # Otherwise Python warns that nobody has awaited it.
        return (
            f"{takes}, not {given.__name__}(…), which is called already. Pass {given.__name__} "
            "itself; its arguments come behind it, or with task.prepare(…)."
        )
    if isinstance(given, Request):
        return f"{takes} with its arguments. A request is enqueued with enqueue_many([request])."
    if isinstance(given, str):
        return (
            f"{takes}, not the text {given!r}. Import the task and pass that; app.tasks.get finds "
            "one of this app by its name."
        )
    if callable(given):
        name = getattr(given, "__qualname__", repr(given))
        return f"{takes}, not {name}: decorate it with @app.task."
    return (
        f"{takes}, not {given!r}. If this is what the task returned, pass the task itself; its "
        "arguments come behind it, or with task.prepare(…)."
    )


AnyTask = Task[..., Any]


class Registry:
    """The tasks an app knows, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, AnyTask] = {}
        self._internal: set[str] = set()
        # The tasks that take many jobs in one call, and how many at most: looked at for every job.
        self.batched: dict[str, int] = {}

    def add(self, *tasks: AnyTask) -> None:
        """Register tasks. One that is registered already may come again."""
        for task in tasks:
            known = self._tasks.setdefault(task.name, task)
            if not known.is_same(task):
                raise DuplicateTask(task.name, known.place, task.place)
            if known.settings.batch is not None:
                self.batched[known.name] = known.settings.batch.size

    def add_internal(self, *tasks: AnyTask) -> None:
        """Register tasks that only code and the terminal may name, not callers over HTTP."""
        self.add(*tasks)
        self._internal.update(task.name for task in tasks)

    def around(self, task: AnyTask) -> AnyTask:
        """Return the task as it is run here: with what surrounds every handler, if anything."""
        return task

    def include(self, *sources: ModuleType | AnyTask | Iterable[AnyTask]) -> None:
        """Register tasks one by one, from a list, or all those of a module."""
        for source in sources:
            self._include(source)

    def get(self, name: str) -> AnyTask:
        """Return the task of this name, or raise UnknownTask."""
        if task := self._tasks.get(name):
            return task
        raise UnknownTask(name, self._tasks)

    def get_public(self, name: str) -> AnyTask:
        """Return the task of this name for callers over HTTP, to whom internal ones are unknown."""
        if name in self._tasks and name not in self._internal:
            return self._tasks[name]
        raise UnknownTask(name, self._tasks.keys() - self._internal)

    def find(self, name: str) -> AnyTask | None:
        """Return the task of this name, or None."""
        return self._tasks.get(name)

    def widest(self, queue: str) -> int:
        """The most items that a call of a task on this queue takes; 0 if its jobs share none."""
        sizes = (self.batched[name] for name in self.batched if self._queue_of(name) == queue)
        return max(sizes, default=0)

    def shares_all(self, queue: str) -> bool:
        """Whether all jobs that tasks put on this queue by themselves share calls."""
        return all(name in self.batched for name in self._tasks if self._queue_of(name) == queue)

    def _queue_of(self, name: str) -> str:
        return self._tasks[name].defaults.queue

    def names(self) -> list[str]:
        """Return the names of all tasks in order."""
        return sorted(self._tasks)

    def check(self) -> None:
        """Look up all annotations now, so that a mistake stops the start and not the first job."""
        for task in self:
            task.check()

    def _include(self, source: Any) -> None:
        match source:
            case Task():
                self.add(source)
            case ModuleType():
                self.add(*(one for one in vars(source).values() if isinstance(one, Task)))
            case Iterable() if not isinstance(source, str):
                self.include(*source)
            case _:
                raise Misuse(_not_included(source), "include")

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def __iter__(self) -> Iterator[AnyTask]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)


def _not_included(source: Any) -> str:
    if isinstance(source, str):
        return f"Modules are included as such, not by name: import {source}, and include that."
    if callable(source):
        name = getattr(source, "__qualname__", repr(source))
        return f"{name} is no task, so it cannot be included. Put @task on it."
    return f"Modules, tasks and lists of tasks can be included, not {source!r}."
