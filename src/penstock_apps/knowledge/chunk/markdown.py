"""Read Markdown and plain text as blocks: headings, paragraphs, tables and code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
# Characters that underline a heading in Markdown and reStructuredText, the widest heading first.
UNDERLINES: Final = "=-~^"
MIN_UNDERLINE_CHARACTERS: Final = 3
# A longer line is a paragraph, even after a `#`.
MAX_HEADING_CHARACTERS: Final = 160
FENCES: Final = ("```", "~~~")


class Shape(Enum):
    """The kind of a block, which decides where it may be cut."""

    HEADING = "heading"
    PROSE = "prose"
    LINES = "lines"  # each line by itself: code, a table


class Block(NamedTuple):
    text: str
    shape: Shape
    level: int = 0  # of a heading, 1 the widest


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a text in order, without empty lines and underlines of headings."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        bare = line.strip()
        if fence:
            lines.append(line)
            if bare.startswith(fence) and not bare.strip(fence[0]):
                yield Block("\n".join(lines), Shape.LINES)
                lines, fence = [], ""
        elif not bare:
            yield from _block_of(lines)
            lines = []
        elif bare[:3] in FENCES and (bare[0] == "`" or bare.strip("~")):
            yield from _block_of(lines)
            lines, fence = [line], bare[:3]
        elif (
            bare[0] == "#"
            and len(bare) <= MAX_HEADING_CHARACTERS
            and (heading := HEADING.match(line))
        ):
            yield from _block_of(lines)
            lines = []
            yield Block(bare, Shape.HEADING, len(heading[1]))
        elif bare[0] in UNDERLINES and _is_underlined(lines, bare):
            yield Block(lines[-1].strip(), Shape.HEADING, UNDERLINES.index(bare[0]) + 1)
            lines = []
        else:
            lines.append(line)
    if fence:
        yield Block("\n".join(lines), Shape.LINES)
    else:
        yield from _block_of(lines)


def _block_of(lines: list[str]) -> Iterator[Block]:
    if lines:
        is_code = lines[0].startswith(("    ", "\t"))
        shape = Shape.LINES if is_code or lines[0].lstrip()[0] == "|" else Shape.PROSE
        yield Block("\n".join(lines), shape)


def _is_underlined(above: list[str], line: str) -> bool:
    """Return whether `line` underlines a heading.

    `above` has the lines before it: the heading, and in some texts a line above the heading.
    """
    if line.strip(line[0]) or len(line) < MIN_UNDERLINE_CHARACTERS:
        return False
    if len(above) == 2:
        return not above[0].strip().strip(line[0]) and _is_title(above[1], line)
    return len(above) == 1 and _is_title(above[0], line)


def _is_title(above: str, line: str) -> bool:
    title = above.strip()
    longest = min(2 * max(len(line), 20), MAX_HEADING_CHARACTERS)
    return title[0] not in "|#>-*+" and len(title) <= longest


LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
MARKUP: Final = re.compile(r"[*`¶]|\\(?=[\W_])")
# The number of a heading: "13.2.", "E.5.", "Chapter 7:". It is left out, since a new chapter shifts
# the numbers of all that follow and would change each of their pieces. A number without a dot after
# it may be a version, and stays.
NUMBER: Final = re.compile(
    r"(?:(?:chapter|appendix|part|section)\s+(?:\d+|[A-Z]|[IVXL]+)"
    r"|(?:\d+|[A-Z])(?:\.\d+)+|\d+)[.:]\s+(?=\S)",
    re.IGNORECASE,
)
MAX_TITLE_CHARACTERS: Final = 80
PATH_SEPARATOR: Final = " › "

Path = tuple[str, ...]


class Headings:
    """The headings that the next block is under."""

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
    """Return the words of a heading, without its markup, links and number."""
    words = " ".join(MARKUP.sub("", LINK.sub(r"\1", line)).strip().strip("#").split())
    if number := NUMBER.match(words):
        words = words[number.end() :]
    if len(words) <= MAX_TITLE_CHARACTERS:
        return words
    return words[: MAX_TITLE_CHARACTERS - 1].rstrip() + "…"


def common_path(first: Path, second: Path) -> Path:
    """Return the headings that both paths begin with."""
    if first == second:
        return first
    shared = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        shared += 1
    return first[:shared]
