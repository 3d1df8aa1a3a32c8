"""Under which headings a text stands."""

from __future__ import annotations

import re
from typing import Final

LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
MARKS: Final = re.compile(r"[*`¶]|\\(?=[\W_])")
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
    """The words of a heading, without its marks and links."""
    words = MARKS.sub("", LINK.sub(r"\1", line)).strip().strip("#").split()
    told = " ".join(words)
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
