"""Parsers, warnings and sentences that the commands for settings share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import get_close_matches
from types import EllipsisType
from typing import Any, TypeVar

import typer

from penstock.cli.database import OpenQueue
from penstock.cli.errors import SettingNotFound
from penstock.cli.output import say
from penstock.cli.tables import format_duration
from penstock.insights.insights import MAX_QUEUES_COUNTED
from penstock.windows import Windows

T = TypeVar("T")

NONE = "none"

MAX_NAMES_SHOWN = 10


def or_none(parse: Callable[[str], T]) -> Callable[[str], T | str]:
    """Return a parser that also accepts `none`."""

    def read(text: str) -> T | str:
        return NONE if str(text).lower() == NONE else parse(text)

    return read


def to_setting(value: Any) -> Any | EllipsisType | None:
    """Convert an option for the client: `...` if it is not given, None for `none`."""
    if value is None:
        return ...
    return None if value is NONE or value == NONE else value


def given_settings(**options: Any) -> dict[str, Any]:
    """Return the settings that the user gave; raise `BadParameter` if there are none."""
    values = {name: to_setting(value) for name, value in options.items()}
    changing = {name: value for name, value in values.items() if value is not ...}
    if not changing:
        raise typer.BadParameter("nothing to change: give at least one setting")
    return changing


def parse_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


async def read_queue_names(queue: OpenQueue) -> set[str]:
    """Return the names of all queues that have jobs, workers or settings."""
    queues = await queue.insights.queues(count_to=1, limit=MAX_QUEUES_COUNTED)
    return {insight.name for insight in queues}


def warn_of_unknown_queue(name: str, known: Collection[str]) -> None:
    """Warn on stderr if the queue is not among the known ones, and suggest similar names."""
    if name in known:
        return
    hint = "There are no queues yet."
    if near := get_close_matches(name, known, n=3):
        hint = f"Did you mean {' or '.join(near)}?"
    elif known:
        more = ", …" if len(known) > MAX_NAMES_SHOWN else ""
        hint = f"Existing queues: {', '.join(sorted(known)[:MAX_NAMES_SHOWN])}{more}."
    say(f"No waiting job and no worker uses the queue {name}. {hint}")


Changes = dict[str, Any]


def require_set(is_set: bool, message: str) -> None:
    """Raise `SettingNotFound` with the message if there was no setting to remove."""
    if not is_set:
        raise SettingNotFound(message)


def join_clauses(*parts: str | None) -> str:
    """Join the clauses that are not None into a sentence."""
    return f"{'; '.join(filter(None, parts))}."


def jobs_per_turn(weight: int) -> str:
    return "1 job" if weight == 1 else f"{weight} jobs"


def hours_clause(windows: Windows | None) -> str | None:
    return None if windows is None else f"open {windows}"


def late_clause(late_after: float | None) -> str | None:
    return None if late_after is None else f"late after {format_duration(late_after)}"
