"""Which queues the project's task backends name."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.integrations.django.settings import task_backends


def queues_of_backends() -> Iterator[str]:
    for backend in task_backends():
        # An empty list allows any queue: then the tasks say which there are.
        yield from backend.get("QUEUES", ["default"]) or _of_tasks()


def _of_tasks() -> Iterator[str]:
    from penstock.integrations.django.tasks.backend import known_tasks

    return (task.queue_name for task in known_tasks())
