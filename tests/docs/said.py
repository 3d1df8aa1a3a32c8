"""Compares what was said with what a page shows."""

import difflib
import re

ANYTHING = "…"


def agrees(said: str, shown: str) -> bool:
    """Whether both are the same.

    `…` stands for anything in its line, and for any number of lines where it has one for itself.
    """
    pattern = "".join(map(_pattern, _tidy(shown)))
    return re.fullmatch(pattern, "".join(_tidy(said))) is not None


def expect(place: str, said: str, shown: str) -> None:
    """Fail with the difference unless what was said is what the page shows."""
    if not agrees(said, shown):
        lines = difflib.unified_diff(_tidy(shown), _tidy(said), "shown", "said")
        raise AssertionError("".join([f"{place} shows what is not so:\n", *lines]))


def _tidy(text: str) -> list[str]:
    """The lines, without the spaces at their ends and the empty lines around."""
    return [f"{line.rstrip()}\n" for line in text.strip("\n").split("\n")]


def _pattern(line: str) -> str:
    if line.strip() == ANYTHING:
        return r"(?:.*\n)*?"
    return ".*".join(map(re.escape, line.split(ANYTHING)))
