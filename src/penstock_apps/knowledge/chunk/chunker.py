"""Cut a document into pieces, so that an edit changes only the pieces around it.

A document is read as units: paragraphs, headings, lines of code, parts of long paragraphs. It is
cut between units, at the strongest places first, until no piece is larger than the chunk size.
"""

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
    PATH_SEPARATOR,
    Block,
    Headings,
    Path,
    Shape,
    blocks,
    common_path,
)
from penstock_apps.knowledge.text import Extracted, Piece
from penstock_apps.knowledge.tokens import Tokens, tokens

# The version of the rules below. Other rules cut other pieces, so they need another version.
VERSION: Final = 1
MIN_SIZE_TOKENS: Final = 32
MAX_SIZE_TOKENS: Final = 8192


class Chunking(Struct, frozen=True):
    """How documents are cut into chunks. It is stored, so that all documents are cut alike.

    Chunks do not overlap, because an edit in an overlap would change two of them.
    """

    size: int = 256
    """The largest number of tokens in a piece, without its heading. Most pieces have half of it."""
    tokenizer: Literal["wordllama"] = "wordllama"
    version: int = VERSION

    def __post_init__(self) -> None:
        if not MIN_SIZE_TOKENS <= self.size <= MAX_SIZE_TOKENS:
            raise ConfigError(
                "chunking.size", self.size, f"from {MIN_SIZE_TOKENS} to {MAX_SIZE_TOKENS:,} tokens"
            )
        if self.version != VERSION:
            raise ConfigError("chunking.version", self.version, f"{VERSION}")

    @property
    def min_distance(self) -> int:
        """The smallest distance between two of the strongest cuts, in tokens.

        Few pieces are smaller.
        """
        return self.size // 3


# The rank of a cut: the higher, the better. A cut before a heading has HEADING less its level.
HEADING: Final = 20
PAGE: Final = 10
PARAGRAPH: Final = 8
SENTENCE: Final = 4
LINE: Final = 3
PHRASE: Final = 2  # a sentence within a line that is too long by itself
WORD: Final = 1

# Matches after the end of a sentence, and before an item of a list.
SENTENCE_END: Final = re.compile(
    r"(?<=[.!?…:])[\"'”’)\]]*\s+(?![a-z\s])|(?<=[。！？])|\n(?=[ \t]*(?:[-*+•]|\d+[.)])\s)"
)
LINE_END: Final = re.compile(r"\n")
WORDS: Final = re.compile(r"\S+\s*|\s+")
SENTENCE_ENDINGS: Final = ".!?…:。！？\"'”’)]|>`"
# A block that is too long is cut at the first of these. Parts that are still too long are cut at
# the second.
PROSE_CUTS: Final = ((SENTENCE_END, SENTENCE), (LINE_END, LINE))
LINES_CUTS: Final = ((LINE_END, LINE), (SENTENCE_END, PHRASE))
# A cut is identified by the characters that follow it, so an edit further on does not move it.
ANCHOR_CHARACTERS: Final = 48
# Where nothing else ends a unit of words, about one word in eight does. The word itself decides
# that, by its hash. A unit ends at the latest after four times as many words.
WORDS_PER_UNIT: Final = 8
MAX_WORDS_PER_UNIT: Final = 4 * WORDS_PER_UNIT
# No text has longer tokens on average.
MAX_TOKEN_CHARACTERS: Final = 16
# A character has at most as many tokens as bytes.
MAX_CHARACTER_TOKENS: Final = 4


class Head(NamedTuple):
    """A heading: its line, its level, and the path of headings that ends with it."""

    line: str
    level: int
    path: Path


class Unit(NamedTuple):
    """A part of a document that is not cut further, such as a paragraph."""

    text: str
    tokens: int
    # Of a cut before this unit: its rank, and a hash that decides between equal ranks.
    strength: tuple[int, int]
    path: Path
    page: int | None
    heads: tuple[Head, ...] = ()  # the headings before its text
    begins_block: bool = True  # False if it continues the block of the unit before


class Units:
    """Reads a document as units of at most `size` tokens."""

    def __init__(self, tokens: Tokens, size: int) -> None:
        self._count = tokens.count
        self._size = size
        # A longer paragraph may be cut in two, where its neighbours are small.
        self._max_block_tokens = size // 2
        # Four tokens are left: a text begins with a token of its own, and a unit may end within
        # one.
        self._max_characters = (size - 4) // MAX_CHARACTER_TOKENS

    def read(self, document: Extracted) -> Iterator[Unit]:
        headings = Headings()
        heads: list[Head] = []
        page: int | None = None
        rank = PARAGRAPH
        ends_sentence = True
        for number, section in enumerate(document.sections):
            page = section.page
            if number:
                rank = _rank_of_page(document.kind, ends_sentence)
            for block in blocks(section.text.replace("\r\n", "\n")):
                if block.shape is Shape.HEADING:
                    # The heading before has no text under it, so it becomes a unit of its own.
                    if heads and heads[-1].level >= block.level:
                        yield self._first_unit("", rank, headings.path, page, heads)
                        heads, rank = [], PARAGRAPH
                    headings.enter(block.text, block.level)
                    heads.append(Head(block.text, block.level, headings.path))
                    continue
                yield from self._units_of(block, rank, headings.path, page, heads)
                heads, rank = [], PARAGRAPH
                ends_sentence = block.text[-1] in SENTENCE_ENDINGS
        if heads:
            yield self._first_unit("", rank, headings.path, page, heads)

    def _units_of(
        self, block: Block, rank: int, path: Path, page: int | None, heads: list[Head]
    ) -> Iterator[Unit]:
        for text, part_rank in self._parts(block):
            if part_rank is None:
                yield self._first_unit(text, rank, path, page, heads)
            else:
                strength = (part_rank, _hash_of_beginning(text))
                yield Unit(text, self._count(text) + 1, strength, path, page, begins_block=False)

    def _first_unit(
        self, text: str, rank: int, path: Path, page: int | None, heads: list[Head]
    ) -> Unit:
        if heads:
            rank = HEADING - min(head.level for head in heads)
        tokens = self._count(text) + 2 + sum(self._count(head.line) + 2 for head in heads)
        beginning = _hash_of_beginning("".join(head.line for head in heads) + text)
        return Unit(text, tokens, (rank, beginning), path, page, tuple(heads))

    def _parts(self, block: Block) -> Iterator[tuple[str, int | None]]:
        """Yield the parts of a block, each with the rank of the cut before it.

        The rank of the first part is None, because it depends on what is before the block.
        """
        text = block.text
        limit = self._max_block_tokens
        if len(text) <= limit * MAX_TOKEN_CHARACTERS and self._count(text) <= limit:
            yield text, None
            return
        steps = PROSE_CUTS if block.shape is Shape.PROSE else LINES_CUTS
        is_first = True
        for part, rank in self._cut_further(text, steps, PARAGRAPH):
            yield part, None if is_first else rank
            is_first = False

    def _cut_further(
        self, text: str, steps: tuple[tuple[re.Pattern[str], int], ...], rank: int
    ) -> Iterator[tuple[str, int]]:
        """Yield the parts of the text, each with the rank of the cut before it.

        The text is cut by the first of the steps. Parts that are still too long are cut by the next
        steps, and finally between words.
        """
        if not steps:
            yield from self._cut_into_runs(text, rank)
            return
        (ends, step_rank), *rest = steps
        for part in _cut_after(ends, text):
            if len(part) > self._size * MAX_TOKEN_CHARACTERS or self._count(part) > self._size:
                yield from self._cut_further(part, tuple(rest), rank)
            else:
                yield part, rank
            rank = step_rank

    def _cut_into_runs(self, text: str, rank: int) -> Iterator[tuple[str, int]]:
        """Yield runs of words of the text, each with the rank of the cut before it.

        A run ends with a word that has a certain hash, so an edit seldom moves the ends of other
        runs. A word that is too long for a run is cut into parts.
        """
        run: list[str] = []
        for match in WORDS.finditer(text):
            word = match[0]
            if len(word) > self._max_characters:
                if run:
                    yield "".join(run), rank
                    run, rank = [], WORD
                for start in range(0, len(word), self._max_characters):
                    yield word[start : start + self._max_characters], rank
                    rank = WORD
                continue
            if run and sum(map(len, run)) + len(word) > self._max_characters:
                yield "".join(run), rank
                run, rank = [], WORD
            run.append(word)
            if (
                not crc32(word.encode("utf-8", "surrogatepass")) % WORDS_PER_UNIT
                or len(run) >= MAX_WORDS_PER_UNIT
            ):
                yield "".join(run), rank
                run, rank = [], WORD
        if run:
            yield "".join(run), rank


def _rank_of_page(kind: str, ends_sentence: bool) -> int:
    """Return the rank of a cut between two pages.

    The rank is low in a PDF, because its text flows across pages, and an edit moves the page
    breaks.
    """
    if kind != "pdf":
        return PAGE
    return SENTENCE if ends_sentence else WORD


def _cut_after(ends: re.Pattern[str], text: str) -> Iterator[str]:
    start = 0
    for match in ends.finditer(text):
        if match.end() > start:
            yield text[start : match.end()]
            start = match.end()
    if start < len(text):
        yield text[start:]


def _hash_of_beginning(text: str) -> int:
    return crc32(text[:ANCHOR_CHARACTERS].encode("utf-8", "surrogatepass"))


# Usual texts have no stretch without a best cut that is longer than eight pieces.
LONG_STRETCH_PIECES: Final = 8


def cuts(units: Sequence[Unit], size: int, min_distance: int) -> list[int]:
    """Return the indices of the units before which to cut, so that no piece exceeds `size` tokens.

    The text is first cut at the best places. These are places where no other cut within
    `min_distance` tokens is stronger. Where the text between two of them is still too long, it is
    cut further.
    """
    starts = [0, *accumulate(unit.tokens for unit in units)]
    if starts[-1] <= size:
        return []
    best = [at for at in range(1, len(units)) if _is_best(at, units, starts, min_distance)]
    indices: list[int] = []
    for first, end in pairwise([0, *best, len(units)]):
        indices += _cuts_within(first, end, units, starts, size, min_distance // 2)
        if end < len(units):
            indices.append(end)
    return indices


def _is_best(at: int, units: Sequence[Unit], starts: Sequence[int], min_distance: int) -> bool:
    """Return whether the cut before unit `at` is the strongest within `min_distance` tokens.

    Of equally strong cuts, the first one counts. A cut that is nearer to the beginning or the end
    of the document is never the best.
    """
    here, strength = starts[at], units[at].strength
    if here < min_distance or starts[-1] - here < min_distance:
        return False
    other = at - 1
    while here - starts[other] < min_distance:
        if units[other].strength >= strength:
            return False
        other -= 1
    other = at + 1
    while starts[other] - here < min_distance:
        if units[other].strength > strength:
            return False
        other += 1
    return True


def _cuts_within(
    first: int, end: int, units: Sequence[Unit], starts: Sequence[int], size: int, margin: int
) -> list[int]:
    """Return the cuts that divide a stretch of units into parts of at most `size` tokens.

    The stretch is cut at its strongest place, and then each of the two parts in the same way, until
    all parts are short enough.
    """
    indices: list[int] = []
    stretches = [(first, end)]
    while stretches:
        first, end = stretches.pop()
        length = starts[end] - starts[first]
        if length <= size or end - first < 2:
            continue
        # A long stretch is cut near its middle. It may have weak cuts only, and taking them one by
        # one from its ends would take long.
        distance = margin if length <= LONG_STRETCH_PIECES * size else length // 4
        low = bisect_left(starts, starts[first] + distance, first + 1, end)
        high = bisect_right(starts, starts[end] - distance, first + 1, end)
        middle = (first + end) // 2
        at = max(
            range(low, high) or range(first + 1, end),
            key=lambda index: (units[index].strength, -abs(index - middle)),
        )
        indices.append(at)
        stretches += (first, at), (at, end)
    return sorted(indices)


def split(extracted: Extracted, settings: Chunking) -> list[Piece]:
    """Cut a document into pieces, and return them in order.

    An edit changes the pieces that contain the edited text, and sometimes a piece beside them. All
    other pieces stay the same, even if text before them was inserted or removed.
    """
    counter = tokens()
    units = list(Units(counter, settings.size).read(extracted))
    if not units:
        return []
    bounds = [0, *cuts(units, settings.size, settings.min_distance), len(units)]
    pieces = (_make_piece(units[start:end], counter) for start, end in pairwise(bounds))
    return [piece for piece in pieces if piece]


def _make_piece(units: Sequence[Unit], counter: Tokens) -> Piece | None:
    first = units[0]
    path = reduce(common_path, (unit.path for unit in units))
    # A heading that is in the path is not repeated at the beginning of the text.
    heads = [head for head in first.heads if path[: len(head.path)] != head.path]
    text = _text_of(units, heads)
    if not text and path:
        text, path = path[-1], path[:-1]
    if not text:
        return None
    piece = Piece(text, 0, PATH_SEPARATOR.join(filter(None, path)), first.page)
    return Piece(text, len(counter.ids(piece.embedded)), piece.heading, first.page)


def _text_of(units: Sequence[Unit], heads: Sequence[Head]) -> str:
    parts: list[str] = []
    for unit in units:
        shown_heads = heads if unit is units[0] else unit.heads
        parts += (f"\n\n{head.line}" for head in shown_heads)
        if unit.text:
            parts.append(f"\n\n{unit.text}" if unit.begins_block else unit.text)
    return "".join(parts).strip()
