"""The tasks of django.tasks that this process has imported, and the same as Penstock runs them.

A row names a task by its path. The path is looked up among what the project has imported: nothing
is ever imported because a row names it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.tasks import Task

from penstock.integrations.django.tasks.execution import handler_of
from penstock.tasks import Task as Handled
from penstock.tasks import task as handle

_handled: dict[Callable[..., Any], Handled[..., Any]] = {}


def known_tasks() -> Iterator[Task]:
    """Every task in a module that has been imported, once."""
    seen = set()
    for module in tuple(sys.modules.values()):
        for value in tuple(getattr(module, "__dict__", {}).values()):
            if _is_task(value) and value.module_path not in seen:
                seen.add(value.module_path)
                yield value


def find_task(path: str) -> Task | None:
    """The task of this path, if its module has been imported."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    if _is_task(found):
        return found
    return next((task for task in known_tasks() if task.module_path == path), None)


def _is_task(value: object) -> bool:
    # Not isinstance, which asks the value: Django's lazy objects would come to life.
    return issubclass(type(value), Task)


def as_penstock(task: Task) -> Handled[..., Any]:
    """The task as Penstock runs it, under its path: what people see in lists and statistics."""
    if task.func not in _handled:
        _handled[task.func] = handle(name=task.module_path)(handler_of(task))
    return _handled[task.func]
