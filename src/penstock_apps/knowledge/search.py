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
    """Which documents count: those that pass all of these that are given.

    Tags and metadata are those that a document came in with. One of `tags` is enough, of
    `metadata` all must be there.
    """

    sources: tuple[int, ...] = ()
    documents: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class Query(Struct, frozen=True):
    """A sentence or a few words. A "quoted phrase" has to be in what is found, a -word must not."""

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
    """Editions of one embedder and one language, and what that embedder makes of the question.

    Without a vector, only words are searched for, whatever the mode.
    """

    editions: tuple[int, ...]
    vector: Sequence[float] | None = None


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


# How little a first place counts more than a second; as in search_v1.sql.
RANK_CONSTANT = 10


def fuse_rankings(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """The best hits of groups that have no chunk in common: first places first."""
    if len(rankings) == 1:
        return list(rankings[0][:k])
    hits = [
        replace(hit, score=1 / (RANK_CONSTANT + place))
        for ranking in rankings
        for place, hit in enumerate(ranking, start=1)
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk))[:k]


class Searcher:
    """Finds what is published."""

    def __init__(self, tables: TablePool) -> None:
        self._call = tables.call

    async def search(
        self, on: Connection, tenant: str, groups: Sequence[EditionGroup], query: Query
    ) -> list[Hit]:
        """The best hits of all groups: as many as asked for, if there are so many."""
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
