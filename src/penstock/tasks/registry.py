"""The tasks of an app, by name. Penstock never imports code because a stored job names it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from penstock.errors import DuplicateTask, Misuse, UnknownTask
from penstock.tasks.request import Request
from penstock.tasks.task import Task


def explain_not_a_task(caller: str, value: Any) -> str:
    """Return an error message for a value that is not a task.

    The message begins with `caller`, which expected a task, such as "enqueue" or "A schedule".
    """
    takes = f"{caller} takes a task"
    if inspect.iscoroutine(value):
        value.close()  # Otherwise Python warns that nobody has awaited it.
        return (
            f"{takes}, not {value.__name__}(…), which is called already. Pass {value.__name__} "
            "itself, and its arguments after it or with task.prepare(…)."
        )
    if isinstance(value, Request):
        return f"{takes} with its arguments. A request is enqueued with enqueue_many([request])."
    if isinstance(value, str):
        return (
            f"{takes}, not the text {value!r}. Import the task and pass that; app.tasks.get finds "
            "one of this app by its name."
        )
    if callable(value):
        name = getattr(value, "__qualname__", repr(value))
        return f"{takes}, not {name}: decorate it with @app.task."
    return (
        f"{takes}, not {value!r}. If this is what the task returned, pass the task itself, and its "
        "arguments after it or with task.prepare(…)."
    )


AnyTask = Task[..., Any]


class Registry:
    """The tasks of an app, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, AnyTask] = {}
        self._internal: set[str] = set()
        # The batch sizes of tasks that take many jobs in one call, by name. Read for every job.
        self.batched: dict[str, int] = {}

    def add(self, *tasks: AnyTask) -> None:
        """Register tasks, or raise DuplicateTask if a name belongs to a different task already."""
        for task in tasks:
            known = self._tasks.setdefault(task.name, task)
            if not known.is_same(task):
                raise DuplicateTask(task.name, known.place, task.place)
            if known.settings.batch is not None:
                self.batched[known.name] = known.settings.batch.size

    def add_internal(self, *tasks: AnyTask) -> None:
        """Register tasks that may be enqueued from code and from the CLI, but not over HTTP."""
        self.add(*tasks)
        self._internal.update(task.name for task in tasks)

    def wrap(self, task: AnyTask) -> AnyTask:
        """Return the task with a wrapper around its handler. Only subclasses add a wrapper."""
        return task

    def include(self, *sources: ModuleType | AnyTask | Iterable[AnyTask]) -> None:
        """Register tasks, lists of tasks, or all tasks of a module."""
        for source in sources:
            self._include(source)

    def get(self, name: str) -> AnyTask:
        """Return the task of this name, or raise UnknownTask."""
        if task := self._tasks.get(name):
            return task
        raise UnknownTask(name, self._tasks)

    def get_public(self, name: str) -> AnyTask:
        """Return the task of this name for a caller over HTTP, or raise UnknownTask.

        Internal tasks are unknown to such callers.
        """
        if name in self._tasks and name not in self._internal:
            return self._tasks[name]
        raise UnknownTask(name, self._tasks.keys() - self._internal)

    def find(self, name: str) -> AnyTask | None:
        """Return the task of this name, or None."""
        return self._tasks.get(name)

    def max_batch_size(self, queue: str) -> int:
        """Return the largest batch size of the tasks that use this queue by default.

        Returns 0 if none of these tasks takes batches.
        """
        sizes = (self.batched[name] for name in self.batched if self._queue_of(name) == queue)
        return max(sizes, default=0)

    def has_only_batches(self, queue: str) -> bool:
        """Return whether all tasks that use this queue by default take batches."""
        return all(name in self.batched for name in self._tasks if self._queue_of(name) == queue)

    def _queue_of(self, name: str) -> str:
        return self._tasks[name].defaults.queue

    def names(self) -> list[str]:
        """Return the names of all tasks, sorted."""
        return sorted(self._tasks)

    def check(self) -> None:
        """Resolve all annotations, so that a mistake is found at the start and not in a job."""
        for task in self:
            task.check()

    def _include(self, source: Any) -> None:
        match source:
            case Task():
                self.add(source)
            case ModuleType():
                self.add(*(value for value in vars(source).values() if isinstance(value, Task)))
            case Iterable() if not isinstance(source, str):
                self.include(*source)
            case _:
                raise Misuse(_explain_not_included(source), "include")

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def __iter__(self) -> Iterator[AnyTask]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)


def _explain_not_included(source: Any) -> str:
    if isinstance(source, str):
        return f"Modules are included as such, not by name: import {source}, and include that."
    if callable(source):
        name = getattr(source, "__qualname__", repr(source))
        return f"{name} is no task, so it cannot be included. Put @task on it."
    return f"Modules, tasks and lists of tasks can be included, not {source!r}."
