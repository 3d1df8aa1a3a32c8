"""The queues of the project's task backends."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.integrations.django.settings import task_backends


def queues_of_backends() -> Iterator[str]:
    """Yield the queues that the project's task backends use."""
    for backend in task_backends():
        # An empty list allows any queue, so the queues of the tasks are taken.
        yield from backend.get("QUEUES", ["default"]) or _queues_of_tasks()


def _queues_of_tasks() -> Iterator[str]:
    from penstock.integrations.django.tasks.backend import known_tasks

    return (task.queue_name for task in known_tasks())
