"""The smallest parts of a document that are not cut, and how good a cut before each would be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from penstock_apps.knowledge.chunk.blocks import Block, Shape, blocks
from penstock_apps.knowledge.chunk.headings import Headings, Path
from penstock_apps.knowledge.text import Extracted
from penstock_apps.knowledge.tokens import Tokens

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
