"""What a field has to be, in words for people: a regular expression is for machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WORDS: dict[str, str] = {}


def worded(pattern: str, words: str) -> str:
    """A pattern for a field, and the words that say what it allows: "Should be …".

    >>> Id = Annotated[str, Field(pattern=worded(r"^[1-9][0-9]*$", "a number such as 42"))]
    """
    _WORDS[pattern] = words
    return pattern


def words_for(pattern: str) -> str | None:
    """What a pattern allows, if somebody has said it."""
    return _WORDS.get(pattern)


def said(misfit: Mapping[str, Any]) -> str:
    """What is wrong with a field, from what pydantic tells of it."""
    context = misfit.get("ctx", {})
    match misfit["type"]:
        case "string_pattern_mismatch":
            words = words_for(context["pattern"]) or "written in another way"
            return f"Should be {words}"
        case "value_error":
            return f"Should be {context['error']}"
    return str(misfit["msg"])
