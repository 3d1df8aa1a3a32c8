"""What was found, and where it stands."""

from __future__ import annotations

from msgspec import Struct


class Hit(Struct, frozen=True):
    """A chunk that may answer the question, with its citation: document, page, heading, position.

    A text that several documents share is found once, in the first of them; `others` counts the
    rest. `rank_vector` and `rank_words` are its places by meaning and by words alone, None where
    it was not among the first there.
    """

    document: int
    path: str
    title: str | None
    url: str | None
    source: int
    edition: int
    chunk: int
    position: int
    page: int | None
    heading: str
    text: str
    highlight: str | None
    """A short part of the text, with the words of the question in Markdown's bold."""
    others: int
    score: float
    rank_vector: int | None
    rank_words: int | None
    base: str
    """The name of the knowledge base that it is in."""
