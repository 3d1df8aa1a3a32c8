"""Cohere, which is told whether a text is a document or a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from penstock_apps.knowledge.embed.embedder import COHERE, Embedding, KeyMissing, dimensions_of
from penstock_apps.knowledge.embed.remote import Remote, vectors_of

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

URL: Final = "https://api.cohere.com/v2/embed"
KEY: Final = "COHERE_API_KEY"
MODEL: Final = "embed-v4.0"


class Kinds(Struct):
    numbers: list[list[float]] = field(name="float")


class Answer(Struct):
    embeddings: Kinds


class Cohere:
    shares_calls = True
    most_texts = 96
    most_tokens = 64_000

    def __init__(
        self, settings: Embedding, environment: Mapping[str, str], timeout: float, url: str = URL
    ) -> None:
        key = environment.get(KEY)
        if not key:
            raise KeyMissing("Cohere", KEY)
        self._model = settings.model or MODEL
        self.dimensions, self._asks = dimensions_of(settings, self._model, COHERE)
        self.fingerprint = f"cohere {self._model} {self.dimensions}"
        self._remote = Remote("Cohere", url, key, timeout, key_from=KEY)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await self._ask(texts, "search_document")

    async def embed_query(self, text: str) -> Vectors:
        vectors = await self._ask([text], "search_query")
        vector: Vectors = vectors[0]
        return vector

    async def close(self) -> None:
        await self._remote.close()

    async def _ask(self, texts: Sequence[str], use: str) -> Vectors:
        question: dict[str, Any] = {
            "model": self._model,
            "texts": texts,
            "input_type": use,
            "embedding_types": ["float"],
        }
        if self._asks:
            question["output_dimension"] = self.dimensions
        answer = await self._remote.ask(question, Answer, len(texts))
        return vectors_of("Cohere", answer.embeddings.numbers, len(texts), self.dimensions)
