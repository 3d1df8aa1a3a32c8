"""What every model can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# In quotes: numpy is imported by those who compute, see numeric.py.
Vectors: TypeAlias = "NDArray[np.float32]"


class Embedder(Protocol):
    """Makes vectors of length 1 out of texts."""

    @property
    def fingerprint(self) -> str:
        """What the vectors of documents depend on: with another one they cannot be compared."""

    @property
    def dimensions(self) -> int: ...

    @property
    def shares_calls(self) -> bool:
        """Whether calls are dear, so that one should carry the texts of many documents."""

    @property
    def most_texts(self) -> int:
        """How many texts a call may have."""

    @property
    def most_tokens(self) -> int:
        """How many tokens the texts of a call may have together, as `Piece.tokens` counts them."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """A row a text, in order."""

    async def embed_query(self, text: str) -> Vectors:
        """One vector, to be compared with those of documents."""

    async def close(self) -> None:
        """Let go of connections; no call after it."""
