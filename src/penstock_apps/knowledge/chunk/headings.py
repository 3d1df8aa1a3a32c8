"""Under which headings a text stands."""

from __future__ import annotations

import re
from typing import Final

LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
MARKS: Final = re.compile(r"[*`¶]|\\(?=[\W_])")
# "13.2.", "E.5.", "Chapter 7:": a new chapter shifts the numbers of all that follow, and would so
# change each of their pieces. A number without a dot after it may be a version, which stays.
NUMBER: Final = re.compile(
    r"(?:(?:chapter|appendix|part|section)\s+(?:\d+|[A-Z]|[IVXL]+)"
    r"|(?:\d+|[A-Z])(?:\.\d+)+|\d+)[.:]\s+(?=\S)",
    re.IGNORECASE,
)
LONGEST: Final = 80
BETWEEN: Final = " › "

Path = tuple[str, ...]


class Headings:
    """The headings above the place where a reader is."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, line: str, level: int) -> None:
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, title(line)))

    @property
    def path(self) -> Path:
        return tuple(title for _, title in self._open)


def title(line: str) -> str:
    """The words of a heading, without its marks, links and number."""
    words = MARKS.sub("", LINK.sub(r"\1", line)).strip().strip("#").split()
    told = " ".join(words)
    if number := NUMBER.match(told):
        told = told[number.end() :]
    return told if len(told) <= LONGEST else told[: LONGEST - 1].rstrip() + "…"


def common(first: Path, second: Path) -> Path:
    """The headings that both stand under."""
    if first == second:
        return first
    shared = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        shared += 1
    return first[:shared]
