"""Which queues a worker serves: as given by `--queue`, else those that the app's tasks name."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from penstock.app import Penstock
from penstock.worker.isolation import children_of
from penstock.worker.slots import DEFAULT_SLOTS


def queues_of(app: Penstock, given: Sequence[str], children: int | None = None) -> dict[str, int]:
    """Queues and their slots: `documents:50` has 50, `email` has 100.

    An application says for its own what suits a worker with so many child processes.
    """
    if not given:
        named = {task.settings.defaults.queue for task in app.tasks}
        named_by_tasks = dict.fromkeys(sorted(named) or ["default"], DEFAULT_SLOTS)
        for application in app.applications:
            named_by_tasks |= application.queues(children_of(children))
        return named_by_tasks
    queues: dict[str, int] = {}
    for text in given:
        name, slots = _parsed(text)
        if name in queues:
            raise typer.BadParameter(f"the queue {name} is given twice")
        queues[name] = slots
    return queues


def _parsed(text: str) -> tuple[str, int]:
    """A name may have colons of its own: then the number of slots must follow."""
    name, colon, slots = text.rpartition(":")
    if not colon:
        return text, DEFAULT_SLOTS
    if not slots.isdecimal():
        raise typer.BadParameter(
            f"in --queue {text}, what follows the last colon is no number of slots. Write "
            f"{name}:{DEFAULT_SLOTS}; or {text}:{DEFAULT_SLOTS}, if {text} is the queue's name"
        )
    return name, int(slots)
