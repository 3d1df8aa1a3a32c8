"""Embed with Cohere. Each call says whether its texts are documents or questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from penstock_apps.knowledge.embed.embedder import (
    COHERE_DIMENSIONS,
    Embedding,
    KeyMissing,
    dimensions_of,
)
from penstock_apps.knowledge.embed.remote import Remote, vectors_of

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

URL: Final = "https://api.cohere.com/v2/embed"
KEY_VARIABLE: Final = "COHERE_API_KEY"
DEFAULT_MODEL: Final = "embed-v4.0"


class VectorsByType(Struct):
    floats: list[list[float]] = field(name="float")


class CohereAnswer(Struct):
    embeddings: VectorsByType


class Cohere:
    shares_calls = True
    max_texts = 96
    max_tokens = 64_000

    def __init__(
        self, settings: Embedding, environment: Mapping[str, str], timeout: float, url: str = URL
    ) -> None:
        key = environment.get(KEY_VARIABLE)
        if not key:
            raise KeyMissing("Cohere", KEY_VARIABLE)
        self._model = settings.model or DEFAULT_MODEL
        self.dimensions, self._sends_dimensions = dimensions_of(
            settings, self._model, COHERE_DIMENSIONS
        )
        self.fingerprint = f"cohere {self._model} {self.dimensions}"
        self._remote = Remote("Cohere", url, key, timeout, key_from=KEY_VARIABLE)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await self._ask(texts, "search_document")

    async def embed_query(self, text: str) -> Vectors:
        vectors = await self._ask([text], "search_query")
        vector: Vectors = vectors[0]
        return vector

    async def close(self) -> None:
        await self._remote.close()

    async def _ask(self, texts: Sequence[str], use: str) -> Vectors:
        body: dict[str, Any] = {
            "model": self._model,
            "texts": texts,
            "input_type": use,
            "embedding_types": ["float"],
        }
        if self._sends_dimensions:
            body["output_dimension"] = self.dimensions
        answer = await self._remote.ask(body, CohereAnswer, len(texts))
        return vectors_of("Cohere", answer.embeddings.floats, len(texts), self.dimensions)
