"""Errors on their way from the worker into a child process, where the handler is to see them."""

from __future__ import annotations

from typing import Any

from penstock import errors
from penstock.worker.inside.messages import Trouble

_PLAIN = (str, int, float, bool, type(None))


def trouble(error: Exception) -> Trouble:
    """An error as it is sent."""
    held = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
    return Trouble(type(error).__name__, str(error), held)


def raised(told: Trouble) -> Exception:
    """The error to raise for it: the same if it is one of ours, else one that quotes it."""
    kind: Any = getattr(errors, told.name, None)
    if not (isinstance(kind, type) and issubclass(kind, errors.PenstockError)):
        return RuntimeError(f"{told.name}: {told.message}")
    # Not through its __init__, which would put the text together from what it is given.
    error: Exception = kind.__new__(kind)
    error.args = (told.message,)
    vars(error).update(told.held)
    return error
