"""Cuts a document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

from penstock_apps.knowledge.chunk.cuts import cuts
from penstock_apps.knowledge.chunk.headings import BETWEEN, common
from penstock_apps.knowledge.chunk.settings import Chunking
from penstock_apps.knowledge.chunk.units import Head, Unit, Units
from penstock_apps.knowledge.text import Extracted, Piece
from penstock_apps.knowledge.tokens import Tokens, tokens


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
