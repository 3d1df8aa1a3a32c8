"""The options that `work` and `up` share for their worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.cli.options import parse_duration
from penstock.worker.limits.slots import DEFAULT_SLOTS

WORK_PANEL = "What to work on"

LIFETIME_PANEL = "Life and death"

Queue = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[:SLOTS]",
        help="A queue to serve and how many of its jobs run at once (100). "
        "Without any: the queues that the app's tasks and schedules name.",
        rich_help_panel=WORK_PANEL,
    ),
]

StopWait = Annotated[
    float,
    typer.Option(
        parser=parse_duration,
        metavar="DURATION",
        help="How long running jobs may finish after SIGTERM or Ctrl-C; a second one hurries.",
        show_default="20s",
        rich_help_panel=LIFETIME_PANEL,
    ),
]


def parse_queues(texts: Sequence[str]) -> dict[str, int] | None:
    """Parse queues and their slots: `documents:50` has 50, and `email` has the default of 100.

    Return None if no queue is given.
    """
    if not texts:
        return None
    queues: dict[str, int] = {}
    for text in texts:
        name, slots = _parse_queue(text)
        if name in queues:
            raise typer.BadParameter(f"the queue {name} is given twice")
        queues[name] = slots
    return queues


def _parse_queue(text: str) -> tuple[str, int]:
    """Split a name from its slots. A name that contains a colon must be followed by slots."""
    name, colon, slots = text.rpartition(":")
    if not colon:
        return text, DEFAULT_SLOTS
    if not slots.isdecimal():
        raise typer.BadParameter(
            f"--queue {text} has no number of slots after its last colon; write "
            f"{name}:{DEFAULT_SLOTS}, or {text}:{DEFAULT_SLOTS} if the queue's name is {text}"
        )
    return name, int(slots)
