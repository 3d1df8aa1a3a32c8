"""Options of commands that run a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.cli.options import seconds
from penstock.worker.limits.slots import DEFAULT_SLOTS

WORK = "What to work on"


LIFE = "Life and death"


Queue = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[:SLOTS]",
        help="A queue to serve and how many of its jobs run at once (100). "
        "Without any: the queues that the app's tasks and schedules name.",
        rich_help_panel=WORK,
    ),
]


StopWait = Annotated[
    float,
    typer.Option(
        parser=seconds,
        metavar="DURATION",
        help="How long running jobs may finish after SIGTERM or Ctrl-C; a second one hurries.",
        show_default="20s",
        rich_help_panel=LIFE,
    ),
]


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
