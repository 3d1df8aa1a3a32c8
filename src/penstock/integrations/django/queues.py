"""Which queues a worker of the project serves, unless it is told."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.integrations.django.project import DjangoPenstock
from penstock.integrations.django.settings import task_backends
from penstock.worker.slots import slots_of


def queues_of(app: DjangoPenstock) -> dict[str, int]:
    """Those of PENSTOCK["QUEUES"], else those that its tasks and its task backends name."""
    if app.settings.queues is not None:
        return app.settings.queues
    named = {task.settings.defaults.queue for task in app.tasks} | set(_of_backends())
    return slots_of(sorted(named) or ["default"])


def _of_backends() -> Iterator[str]:
    for backend in task_backends():
        # An empty list allows any queue: then the tasks say which there are.
        yield from backend.get("QUEUES", ["default"]) or _of_tasks()


def _of_tasks() -> Iterator[str]:
    from penstock.integrations.django.tasks.known import known_tasks

    return (task.queue_name for task in known_tasks())
