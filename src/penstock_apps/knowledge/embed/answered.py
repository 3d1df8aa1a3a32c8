"""From what an API has answered to vectors, or a word on why not."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock_apps.knowledge.embed.errors import Misfit
from penstock_apps.knowledge.embed.numeric import normalised, np

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors


def vectors_of(
    provider: str, answered: Sequence[Sequence[float] | str], texts: int, dimensions: int
) -> Vectors:
    """A row a text; each vector is a list of numbers, or these in base64."""
    if len(answered) != texts:
        raise Misfit(f"{provider} has answered {len(answered):,} vectors for {texts:,} texts.")
    vectors = np.empty((texts, dimensions), np.float32)
    for row, vector in enumerate(answered):
        numbers = np.frombuffer(b64decode(vector), "<f4") if isinstance(vector, str) else vector
        if len(numbers) != dimensions:
            raise Misfit(
                f"{provider} has answered vectors of {len(numbers):,} dimensions; the settings say "
                f"{dimensions:,}. Set embedding.dimensions to what the model has."
            )
        vectors[row] = numbers
    if not np.isfinite(vectors).all():
        raise Misfit(f"{provider} has answered a vector that holds no number.")
    return normalised(vectors)
