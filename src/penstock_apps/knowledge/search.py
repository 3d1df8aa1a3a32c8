"""Search by meaning and by words, in one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock import ConfigError
from penstock_apps.knowledge.store.tables import Connection, TablePool

Mode = Literal["hybrid", "vector", "words"]

MAX_HITS: Final = 100
MAX_QUERY_CHARACTERS: Final = 10_000


class Filters(Struct, frozen=True, omit_defaults=True):
    """Restricts a search to documents that match all given filters.

    A document needs one of the `tags`, and all of the `metadata`. It has those that were given when
    it was added.
    """

    sources: tuple[int, ...] = ()
    documents: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class Query(Struct, frozen=True):
    """A question or a few words. A "quoted phrase" must be in each result, a -word must not."""

    text: str
    k: int = 10
    filters: Filters = Filters()
    mode: Mode = "hybrid"

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MAX_HITS:
            raise ConfigError("k", self.k, f"from 1 to {MAX_HITS}")
        if len(self.text) > MAX_QUERY_CHARACTERS:
            raise ConfigError(
                "text", f"{self.text[:40]}…", f"at most {MAX_QUERY_CHARACTERS} characters"
            )
        if self.mode not in ("hybrid", "vector", "words"):
            raise ConfigError("mode", self.mode, "hybrid, vector or words")


class EditionGroup(Struct, frozen=True):
    """Editions with the same embedder and language, and the question's vector from that embedder.

    Without a vector, the editions are searched by words only, whatever the mode.
    """

    editions: tuple[int, ...]
    vector: Sequence[float] | None = None


class Hit(Struct, frozen=True):
    """A chunk that may answer the question, with its citation: document, page, heading, position.

    If several documents share a text, the hit is the first of them, and `others` counts the rest.
    `rank_vector` and `rank_words` are its ranks by meaning and by words alone; None where it was
    not among the candidates.
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
    """The name of its knowledge base."""


# The k of reciprocal rank fusion, as in search_v1.sql. A larger one flattens the ranks.
RANK_CONSTANT = 10


def fuse_rankings(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """Merge the rankings of groups that share no chunk, by rank, and return the best `k` hits."""
    if len(rankings) == 1:
        return list(rankings[0][:k])
    hits = [
        replace(hit, score=1 / (RANK_CONSTANT + rank))
        for ranking in rankings
        for rank, hit in enumerate(ranking, start=1)
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk))[:k]


class Searcher:
    """Searches published chunks, with one call to Postgres for each group of editions."""

    def __init__(self, tables: TablePool) -> None:
        self._call = tables.call

    async def search(
        self, on: Connection, tenant: str, groups: Sequence[EditionGroup], query: Query
    ) -> list[Hit]:
        """Return the best hits of all groups, at most `query.k`."""
        if not groups or not query.text.strip():
            return []
        filters = msgspec.json.encode(query.filters).decode()
        rankings = []
        for group in groups:
            rows = await on.fetch(
                self._call("search"),
                tenant,
                list(group.editions),
                group.vector,
                query.text,
                query.k,
                filters,
                query.mode if group.vector is not None else "words",
            )
            rankings.append([Hit(**row) for row in rows])
        return fuse_rankings(rankings, query.k)
