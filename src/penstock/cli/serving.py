"""Which queues a worker serves, as `--queue` gives them."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from penstock.worker.limits.slots import DEFAULT_SLOTS


def queues_of(given: Sequence[str]) -> dict[str, int] | None:
    """Queues and their slots: `documents:50` has 50, `email` has 100. None if none is given."""
    if not given:
        return None
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
