"""How documents are cut."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from penstock import ConfigError

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
