"""Embed with wordllama, whose model is a table with a vector for each token.

The vector of a text is the mean of the vectors of its tokens. The table is in wordllama's wheel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from penstock import ConfigError
from penstock_apps.knowledge.embed.embedder import Embedding
from penstock_apps.knowledge.embed.numeric import normalised, np
from penstock_apps.knowledge.extras import NotInstalled
from penstock_apps.knowledge.tokens import tokens, wheel_file

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

MODEL: Final = "l2_supercat"
WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
# The model was trained so that its first 64 or 128 dimensions work on their own.
DIMENSIONS: Final = (256, 128, 64)


class WordLlama:
    """Embeds thousands of texts per second in this process, so documents need not share calls."""

    shares_calls = False
    max_texts = 4096
    max_tokens = 4096 * 256

    def __init__(self, settings: Embedding) -> None:
        if settings.model not in (None, MODEL):
            raise ConfigError("embedding.model", settings.model, f"{MODEL} with wordllama")
        self.dimensions = settings.dimensions or DIMENSIONS[0]
        if self.dimensions not in DIMENSIONS:
            raise ConfigError(
                "embedding.dimensions", self.dimensions, "256, 128 or 64 with wordllama"
            )
        self.fingerprint = f"wordllama {MODEL} {self.dimensions}"
        self._weights = np.ascontiguousarray(weights()[:, : self.dimensions])
        self._ids = tokens().ids

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Embed texts. This is the blocking form of `embed`."""
        sums = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            # Texts are added up one by one. The rows of many would not fit into the processor's
            # cache.
            np.add.reduce(self._weights.take(self._ids(text), axis=0), axis=0, out=sums[row])
        return normalised(sums)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self.vectors, texts)

    async def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.vectors([text])[0]
        return vector

    async def close(self) -> None:
        pass


@cache
def weights() -> Vectors:
    """Load the vectors of all tokens, which take 32 MB, once per process."""
    try:
        from safetensors.numpy import load_file
    except ImportError as error:
        raise NotInstalled("safetensors", "knowledge") from error
    return load_file(wheel_file(WEIGHTS))["embedding.weight"].astype(np.float32)
