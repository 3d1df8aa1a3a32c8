"""What the commands share that change settings: how options are read, and settings in words."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import get_close_matches
from types import EllipsisType
from typing import Any, TypeVar

import typer

from penstock.cli.database import Reached
from penstock.cli.errors import SettingNotFound
from penstock.cli.output import say
from penstock.cli.tables import length
from penstock.insights.insights import MAX_QUEUES_COUNTED
from penstock.windows import Windows

T = TypeVar("T")

NONE = "none"


def or_none(parse: Callable[[str], T]) -> Callable[[str], T | str]:
    """What reads an option that may also be `none`."""

    def read(text: str) -> T | str:
        return NONE if str(text).lower() == NONE else parse(text)

    return read


def setting(value: Any) -> Any | EllipsisType | None:
    """An option as the client takes it: `...` for none given, None for `none`."""
    if value is None:
        return ...
    return None if value is NONE or value == NONE else value


def settings(**given: Any) -> dict[str, Any]:
    """Options as settings of the client, at least one of which is to change."""
    chosen = {name: setting(value) for name, value in given.items()}
    changing = {name: value for name, value in chosen.items() if value is not ...}
    if not changing:
        raise typer.BadParameter("nothing is to change: give at least one setting")
    return changing


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no whole number") from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number") from None


async def known_queues(queue: Reached) -> set[str]:
    found = await queue.insights.queues(count_to=1, limit=MAX_QUEUES_COUNTED)
    return {each.name for each in found}


def warn_of_unknown(name: str, known: Collection[str]) -> None:
    if name in known:
        return
    hint = "There are no others either."
    if near := get_close_matches(name, known, n=3):
        hint = f"Did you mean {' or '.join(near)}?"
    elif known:
        more = ", …" if len(known) > NAMES_SHOWN else ""
        hint = f"There are {', '.join(sorted(known)[:NAMES_SHOWN])}{more}."
    say(f"No waiting job and no worker has a queue {name}. {hint}")


NAMES_SHOWN = 10


Changes = dict[str, Any]


def expect_set(was_there: bool, otherwise: str) -> None:
    if not was_there:
        raise SettingNotFound(otherwise)


def sentence(*parts: str | None) -> str:
    return f"{'; '.join(filter(None, parts))}."


def jobs_in_turn(weight: int) -> str:
    return "1 job" if weight == 1 else f"{weight} jobs"


def opening_hours(windows: Windows | None) -> str | None:
    return None if windows is None else f"open {windows}"


def lateness(late_after: float | None) -> str | None:
    return None if late_after is None else f"late after {length(late_after)}"
