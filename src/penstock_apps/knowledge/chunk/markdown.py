"""Markdown and plain text as headings, paragraphs, tables and code, and where a text stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
# What a line is underlined with, in Markdown and in reStructuredText, the widest heading first.
UNDERLINES: Final = "=-~^"
SHORTEST_UNDERLINE: Final = 3
# What is longer is a paragraph, whatever stands before it.
LONGEST_HEADING: Final = 160
FENCES: Final = ("```", "~~~")


class Shape(Enum):
    HEADING = "heading"
    PROSE = "prose"
    LINES = "lines"  # each line by itself: code, a table


class Block(NamedTuple):
    text: str
    shape: Shape
    level: int = 0  # of a heading, 1 the widest


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text, in order; only the empty lines between them are left out."""
    gathered: list[str] = []
    fence = ""
    for line in text.split("\n"):
        bare = line.strip()
        if fence:
            gathered.append(line)
            if bare.startswith(fence) and not bare.strip(fence[0]):
                yield Block("\n".join(gathered), Shape.LINES)
                gathered, fence = [], ""
        elif not bare:
            yield from _gathered(gathered)
            gathered = []
        elif bare[:3] in FENCES and (bare[0] == "`" or bare.strip("~")):
            yield from _gathered(gathered)
            gathered, fence = [line], bare[:3]
        elif bare[0] == "#" and len(bare) <= LONGEST_HEADING and (heading := HEADING.match(line)):
            yield from _gathered(gathered)
            gathered = []
            yield Block(bare, Shape.HEADING, len(heading[1]))
        elif bare[0] in UNDERLINES and _is_underlined(gathered, bare):
            yield Block(gathered[-1].strip(), Shape.HEADING, UNDERLINES.index(bare[0]) + 1)
            gathered = []
        else:
            gathered.append(line)
    if fence:
        yield Block("\n".join(gathered), Shape.LINES)
    else:
        yield from _gathered(gathered)


def _gathered(lines: list[str]) -> Iterator[Block]:
    if lines:
        is_code = lines[0].startswith(("    ", "\t"))
        shape = Shape.LINES if is_code or lines[0].lstrip()[0] == "|" else Shape.PROSE
        yield Block("\n".join(lines), shape)


def _is_underlined(above: list[str], line: str) -> bool:
    """Whether the one line above, or the one between two such lines, is a heading."""
    if line.strip(line[0]) or len(line) < SHORTEST_UNDERLINE:
        return False
    if len(above) == 2:
        return not above[0].strip().strip(line[0]) and _is_title(above[1], line)
    return len(above) == 1 and _is_title(above[0], line)


def _is_title(above: str, line: str) -> bool:
    title = above.strip()
    return title[0] not in "|#>-*+" and len(title) <= min(2 * max(len(line), 20), LONGEST_HEADING)


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
