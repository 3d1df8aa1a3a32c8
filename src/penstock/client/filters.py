"""Which jobs a listing is about. A slip in a filter would look like an empty queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import BadArgument
from penstock.job import STATES, UNSTORABLE, State


def states(given: State | Sequence[State] | None) -> list[State] | None:
    """The states to look for, checked; None for all."""
    if given is None:
        return None
    chosen: list[Any] = [given] if isinstance(given, str) else list(given)
    for state in chosen:
        if state not in STATES:
            raise BadArgument("state", state, f"one of {', '.join(STATES)}")
    return chosen or None


def texts(**given: Any) -> list[str | None]:
    """Filters by a text, checked: what cannot be stored is in no job."""
    for name, text in given.items():
        if text is not None and (not isinstance(text, str) or UNSTORABLE.search(text)):
            raise BadArgument(name, text, "text without NUL or lone surrogates")
    return list(given.values())
