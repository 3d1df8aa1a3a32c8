"""What is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from penstock import ConfigError

Mode = Literal["hybrid", "vector", "words"]

MOST: Final = 100
MOST_CHARACTERS: Final = 10_000


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
        if not 1 <= self.k <= MOST:
            raise ConfigError("k", self.k, f"from 1 to {MOST}")
        if len(self.text) > MOST_CHARACTERS:
            raise ConfigError("text", f"{self.text[:40]}…", f"at most {MOST_CHARACTERS} characters")
        if self.mode not in ("hybrid", "vector", "words"):
            raise ConfigError("mode", self.mode, "hybrid, vector or words")


class Group(Struct, frozen=True):
    """Editions of one embedder and one language, and what that embedder makes of the question.

    Without a vector, only words are searched for, whatever the mode.
    """

    editions: tuple[int, ...]
    vector: Sequence[float] | None = None
