"""Embed with Voyage. Each call says whether its texts are documents or questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from penstock_apps.knowledge.embed.embedder import (
    VOYAGE_DIMENSIONS,
    Embedding,
    KeyMissing,
    dimensions_of,
)
from penstock_apps.knowledge.embed.remote import Remote, vectors_of

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

URL: Final = "https://api.voyageai.com/v1/embeddings"
KEY_VARIABLE: Final = "VOYAGE_API_KEY"
DEFAULT_MODEL: Final = "voyage-3.5"


class VoyageEmbedding(Struct):
    embedding: list[float] | str
    index: int = 0


class VoyageAnswer(Struct):
    data: list[VoyageEmbedding]


class Voyage:
    shares_calls = True
    max_texts = 1000
    # Its models take at least 120,000 tokens a call, as Voyage's own tokenizer counts them.
    max_tokens = 96_000

    def __init__(
        self, settings: Embedding, environment: Mapping[str, str], timeout: float, url: str = URL
    ) -> None:
        key = environment.get(KEY_VARIABLE)
        if not key:
            raise KeyMissing("Voyage", KEY_VARIABLE)
        self._model = settings.model or DEFAULT_MODEL
        self.dimensions, self._sends_dimensions = dimensions_of(
            settings, self._model, VOYAGE_DIMENSIONS
        )
        self.fingerprint = f"voyage {self._model} {self.dimensions}"
        self._remote = Remote("Voyage", url, key, timeout, key_from=KEY_VARIABLE)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await self._ask(texts, "document")

    async def embed_query(self, text: str) -> Vectors:
        vectors = await self._ask([text], "query")
        vector: Vectors = vectors[0]
        return vector

    async def close(self) -> None:
        await self._remote.close()

    async def _ask(self, texts: Sequence[str], use: str) -> Vectors:
        body: dict[str, Any] = {"model": self._model, "input": texts, "input_type": use}
        if self._sends_dimensions:
            body["output_dimension"] = self.dimensions
        answer = await self._remote.ask(body, VoyageAnswer, len(texts))
        items = sorted(answer.data, key=lambda item: item.index)
        return vectors_of("Voyage", [item.embedding for item in items], len(texts), self.dimensions)
