"""Cuts a document into pieces that stay the same when another part of it is edited."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import Final, Literal, NamedTuple
from zlib import crc32

from msgspec import Struct

from penstock import ConfigError
from penstock_apps.knowledge.chunk.markdown import (
    BETWEEN,
    Block,
    Headings,
    Path,
    Shape,
    blocks,
    common,
)
from penstock_apps.knowledge.text import Extracted, Piece
from penstock_apps.knowledge.tokens import Tokens, tokens

# Of the rules by which is cut: other rules give other pieces, so they are another version.
VERSION: Final = 1
SMALLEST: Final = 32
LARGEST: Final = 8192


class Chunking(Struct, frozen=True):
    """How documents are cut; stored with an edition, so that all of it is cut alike.

    Pieces do not overlap: one edit would then change two of them.
    """

    size: int = 256
    """The most tokens of a piece, those of its heading not counted; most have half as many."""
    tokenizer: Literal["wordllama"] = "wordllama"
    version: int = VERSION

    def __post_init__(self) -> None:
        if not SMALLEST <= self.size <= LARGEST:
            raise ConfigError("chunking.size", self.size, f"from {SMALLEST} to {LARGEST:,} tokens")
        if self.version != VERSION:
            raise ConfigError("chunking.version", self.version, f"{VERSION}")

    @property
    def reach(self) -> int:
        """How far from a cut there is no other, in tokens: few pieces are smaller."""
        return self.size // 3


# How good a cut is; before a heading it is HEADING less the heading's level.
HEADING: Final = 20
PAGE: Final = 10
PARAGRAPH: Final = 8
SENTENCE: Final = 4
LINE: Final = 3
PHRASE: Final = 2  # a sentence within a line that is too long by itself
WORD: Final = 1

# After the end of a sentence, and before an item of a list.
SENTENCE_END: Final = re.compile(
    r"(?<=[.!?…:])[\"'”’)\]]*\s+(?![a-z\s])|(?<=[。！？])|\n(?=[ \t]*(?:[-*+•]|\d+[.)])\s)"
)
LINE_END: Final = re.compile(r"\n")
WORDS: Final = re.compile(r"\S+\s*|\s+")
ENDS_SENTENCE: Final = ".!?…:。！？\"'”’)]|>`"
# Where a block that is too long is cut: at the first of these, and at the next where that is not
# enough.
IN_PROSE: Final = ((SENTENCE_END, SENTENCE), (LINE_END, LINE))
IN_LINES: Final = ((LINE_END, LINE), (SENTENCE_END, PHRASE))
# A cut is known by the beginning of what follows, so that an edit further on does not move it.
ANCHOR: Final = 48
# Of so many words one, chosen by what it is, ends a unit where nothing else does; or else the last.
WORDS_OF_UNIT: Final = 8
MOST_WORDS: Final = 4 * WORDS_OF_UNIT
# No token is longer on average, and a character has no more tokens than bytes.
LONGEST_TOKEN: Final = 16
MOST_BYTES: Final = 4


class Head(NamedTuple):
    """The line of a heading, and the path that it opens."""

    line: str
    level: int
    path: Path


class Unit(NamedTuple):
    text: str
    tokens: int
    strength: tuple[int, int]  # of a cut before it: how good, and a number by which equals differ
    path: Path
    page: int | None
    heads: tuple[Head, ...] = ()  # what it begins with
    begins: bool = True  # a block; else it goes on where the last unit has ended


class Units:
    """Reads a document as units of at most so many tokens."""

    def __init__(self, tokens: Tokens, size: int) -> None:
        self._count = tokens.count
        self._size = size
        # A longer paragraph may be cut in two, where its neighbours are small.
        self._whole = size // 2
        # A text begins with a token of its own, and a unit may end within one.
        self._hard = (size - 4) // MOST_BYTES

    def read(self, document: Extracted) -> Iterator[Unit]:
        headings = Headings()
        heads: list[Head] = []
        page: int | None = None
        rank = PARAGRAPH
        ended = True  # a sentence
        for number, section in enumerate(document.sections):
            page = section.page
            if number:
                rank = _at_page(document.kind, ended)
            for block in blocks(section.text.replace("\r\n", "\n")):
                if block.shape is Shape.HEADING:
                    if heads and heads[-1].level >= block.level:  # nothing stands under the last
                        yield self._first("", rank, headings.path, page, heads)
                        heads, rank = [], PARAGRAPH
                    headings.enter(block.text, block.level)
                    heads.append(Head(block.text, block.level, headings.path))
                    continue
                yield from self._units(block, rank, headings.path, page, heads)
                heads, rank, ended = [], PARAGRAPH, block.text[-1] in ENDS_SENTENCE
        if heads:
            yield self._first("", rank, headings.path, page, heads)

    def _units(
        self, block: Block, rank: int, path: Path, page: int | None, heads: list[Head]
    ) -> Iterator[Unit]:
        for text, within in self._parts(block):
            if within is None:
                yield self._first(text, rank, path, page, heads)
            else:
                strength = (within, _mark(text))
                yield Unit(text, self._count(text) + 1, strength, path, page, begins=False)

    def _first(self, text: str, rank: int, path: Path, page: int | None, heads: list[Head]) -> Unit:
        if heads:
            rank = HEADING - min(head.level for head in heads)
        tokens = self._count(text) + 2 + sum(self._count(head.line) + 2 for head in heads)
        mark = _mark("".join(head.line for head in heads) + text)
        return Unit(text, tokens, (rank, mark), path, page, tuple(heads))

    def _parts(self, block: Block) -> Iterator[tuple[str, int | None]]:
        """The parts of a block, each with how good the cut before it is; before the first, None."""
        text = block.text
        if len(text) <= self._whole * LONGEST_TOKEN and self._count(text) <= self._whole:
            yield text, None
            return
        prose = block.shape is Shape.PROSE
        steps = IN_PROSE if prose else IN_LINES
        first = True
        for part, rank in self._finer(text, steps, PARAGRAPH):
            yield part, None if first else rank
            first = False

    def _finer(
        self, text: str, steps: tuple[tuple[re.Pattern[str], int], ...], rank: int
    ) -> Iterator[tuple[str, int]]:
        """Cut by the first step, and what is too long still by the next ones."""
        if not steps:
            yield from self._words(text, rank)
            return
        (ends, within), *rest = steps
        for part in _cut_after(ends, text):
            if len(part) > self._size * LONGEST_TOKEN or self._count(part) > self._size:
                yield from self._finer(part, tuple(rest), rank)
            else:
                yield part, rank
            rank = within

    def _words(self, text: str, rank: int) -> Iterator[tuple[str, int]]:
        """Runs of words that end at one chosen by what it is; longer words in parts."""
        run: list[str] = []
        for match in WORDS.finditer(text):
            word = match[0]
            if len(word) > self._hard:
                if run:
                    yield "".join(run), rank
                    run, rank = [], WORD
                for start in range(0, len(word), self._hard):
                    yield word[start : start + self._hard], rank
                    rank = WORD
                continue
            if run and sum(map(len, run)) + len(word) > self._hard:
                yield "".join(run), rank
                run, rank = [], WORD
            run.append(word)
            if (
                not crc32(word.encode("utf-8", "surrogatepass")) % WORDS_OF_UNIT
                or len(run) >= MOST_WORDS
            ):
                yield "".join(run), rank
                run, rank = [], WORD
        if run:
            yield "".join(run), rank


def _at_page(kind: str, ended: bool) -> int:
    """How good a cut between two pages is: in a PDF the text flows on, and an edit moves them."""
    if kind != "pdf":
        return PAGE
    return SENTENCE if ended else WORD


def _cut_after(ends: re.Pattern[str], text: str) -> Iterator[str]:
    start = 0
    for match in ends.finditer(text):
        if match.end() > start:
            yield text[start : match.end()]
            start = match.end()
    if start < len(text):
        yield text[start:]


def _mark(text: str) -> int:
    return crc32(text[:ANCHOR].encode("utf-8", "surrogatepass"))


# So many times the size of a piece is more than there is between cuts, in any usual text.
LONG: Final = 8


def cuts(units: Sequence[Unit], size: int, reach: int) -> list[int]:
    """Before which units to cut; each piece between has at most `size` tokens."""
    places = [0, *accumulate(unit.tokens for unit in units)]
    if places[-1] <= size:
        return []
    best = [place for place in range(1, len(units)) if _is_best(place, units, places, reach)]
    found: list[int] = []
    for start, end in pairwise([0, *best, len(units)]):
        found += _within(start, end, units, places, size, reach // 2)
        if end < len(units):
            found.append(end)
    return found


def _is_best(at: int, units: Sequence[Unit], places: Sequence[int], reach: int) -> bool:
    """Whether no cut within reach is stronger, or as strong and before it."""
    here, strength = places[at], units[at].strength
    if here < reach or places[-1] - here < reach:
        return False
    other = at - 1
    while here - places[other] < reach:
        if units[other].strength >= strength:
            return False
        other -= 1
    other = at + 1
    while places[other] - here < reach:
        if units[other].strength > strength:
            return False
        other += 1
    return True


def _within(
    start: int, end: int, units: Sequence[Unit], places: Sequence[int], size: int, margin: int
) -> list[int]:
    """The cuts that a stretch still needs: the strongest first, then those of its two parts."""
    found: list[int] = []
    open_ = [(start, end)]
    while open_:
        start, end = open_.pop()
        length = places[end] - places[start]
        if length <= size or end - start < 2:
            continue
        # Of a long stretch the middle, or nothing but weak cuts would be found one by one.
        away = margin if length <= LONG * size else length // 4
        low = bisect_left(places, places[start] + away, start + 1, end)
        high = bisect_right(places, places[end] - away, start + 1, end)
        middle = (start + end) // 2
        at = max(
            range(low, high) or range(start + 1, end),
            key=lambda place: (units[place].strength, -abs(place - middle)),
        )
        found.append(at)
        open_ += (start, at), (at, end)
    return sorted(found)


def split(extracted: Extracted, settings: Chunking) -> list[Piece]:
    """The pieces of a document, in order.

    An edit changes the pieces that it is in, and now and then a neighbour; all others stay as they
    are, whatever was inserted or removed before them.
    """
    counter = tokens()
    units = list(Units(counter, settings.size).read(extracted))
    if not units:
        return []
    bounds = [0, *cuts(units, settings.size, settings.reach), len(units)]
    pieces = (_piece(units[start:end], counter) for start, end in pairwise(bounds))
    return [piece for piece in pieces if piece]


def _piece(units: Sequence[Unit], counter: Tokens) -> Piece | None:
    first = units[0]
    path = reduce(common, (unit.path for unit in units))
    # What the path says need not be said again at the beginning of the text.
    heads = [head for head in first.heads if path[: len(head.path)] != head.path]
    text = _text(units, heads)
    if not text and path:
        text, path = path[-1], path[:-1]
    if not text:
        return None
    piece = Piece(text, 0, BETWEEN.join(filter(None, path)), first.page)
    return Piece(text, len(counter.ids(piece.embedded)), piece.heading, first.page)


def _text(units: Sequence[Unit], heads: Sequence[Head]) -> str:
    parts: list[str] = []
    for unit in units:
        own = heads if unit is units[0] else unit.heads
        parts += (f"\n\n{head.line}" for head in own)
        if unit.text:
            parts.append(f"\n\n{unit.text}" if unit.begins else unit.text)
    return "".join(parts).strip()
