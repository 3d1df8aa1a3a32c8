"""The bookmarks of a PDF, as headings of the lines they lead to."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

import pypdfium2
import pypdfium2.raw as pdfium

from penstock_apps.knowledge.extract.pdf_string import string

# More of them is an index, and not of headings.
MOST = 5_000
DEEPEST = 6
# "2.1 Options", "Chapter 3: Names", "A.4 Tables", while the bookmark has only the words.
NUMBERED = re.compile(
    r"^(?:(?:chapter|part|appendix|section) )?(?:[0-9]+|[a-z]|[ivx]+)(?:\.[0-9]+)*[.:]? (?=\S)"
)

# Bookmarks have the plain ones, pages the fine ones.
SINGLE = re.compile("[`´‘’]")
DOUBLE = re.compile("[“”„]")

Heading = tuple[str, int]


def headings(document: pypdfium2.PdfDocument) -> dict[int, list[Heading]]:
    """By page number: what is headed there, and how deep it stands."""
    found: dict[int, list[Heading]] = {}
    for count, bookmark in enumerate(document.get_toc(max_depth=DEEPEST)):
        if count == MOST:
            return {}
        target = bookmark.get_dest()
        page = target.get_index() if target else None
        if page is None:
            continue
        title = string(partial(pdfium.FPDFBookmark_GetTitle, bookmark))
        if words := plain(title).replace("\n", " ").strip():
            found.setdefault(page + 1, []).append((words, bookmark.level + 1))
    return found


def marked(text: str, headings: Sequence[Heading]) -> str:
    """The text of a page whose headings are headings of Markdown."""
    if not headings:
        return text
    lines = text.split("\n")
    places = places_of(plain(text).split("\n"))
    start = 0
    for title, level in headings:
        at = position(title, places, start)
        if at is not None:
            lines[at] = f"\n{'#' * level} {lines[at].strip()}\n"
            start = at + 1
    return "\n".join(lines)


def places_of(lines: list[str]) -> dict[str, list[int]]:
    """Where each line stands, by its words; once, since a page may have many lines and headings."""
    places: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        for words in {line, NUMBERED.sub("", line)} - {""}:
            places.setdefault(words, []).append(at)
    return places


def position(title: str, places: dict[str, list[int]], start: int) -> int | None:
    """The first line from `start` on with the words of a title, whatever their numbers are."""
    ats = [places.get(words, []) for words in (title, NUMBERED.sub("", title))]
    found = [some[at] for some in ats if (at := bisect_left(some, start)) < len(some)]
    return min(found, default=None)


def plain(text: str) -> str:
    """Without what differs between a bookmark and the line it leads to."""
    text = DOUBLE.sub('"', SINGLE.sub("'", text)).casefold()
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))
