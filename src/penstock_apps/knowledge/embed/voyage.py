"""Voyage, which is told whether a text is a document or a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from penstock_apps.knowledge.embed.embedder import VOYAGE, Embedding, KeyMissing, dimensions_of
from penstock_apps.knowledge.embed.remote import Remote, vectors_of

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

URL: Final = "https://api.voyageai.com/v1/embeddings"
KEY: Final = "VOYAGE_API_KEY"
MODEL: Final = "voyage-3.5"


class Item(Struct):
    embedding: list[float] | str
    index: int = 0


class Answer(Struct):
    data: list[Item]


class Voyage:
    shares_calls = True
    most_texts = 1000
    # The least that any of its models takes is 120,000, as its own tokenizer counts.
    most_tokens = 96_000

    def __init__(
        self, settings: Embedding, environment: Mapping[str, str], timeout: float, url: str = URL
    ) -> None:
        key = environment.get(KEY)
        if not key:
            raise KeyMissing("Voyage", KEY)
        self._model = settings.model or MODEL
        self.dimensions, self._asks = dimensions_of(settings, self._model, VOYAGE)
        self.fingerprint = f"voyage {self._model} {self.dimensions}"
        self._remote = Remote("Voyage", url, key, timeout, key_from=KEY)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await self._ask(texts, "document")

    async def embed_query(self, text: str) -> Vectors:
        vectors = await self._ask([text], "query")
        vector: Vectors = vectors[0]
        return vector

    async def close(self) -> None:
        await self._remote.close()

    async def _ask(self, texts: Sequence[str], use: str) -> Vectors:
        question: dict[str, Any] = {"model": self._model, "input": texts, "input_type": use}
        if self._asks:
            question["output_dimension"] = self.dimensions
        answer = await self._remote.ask(question, Answer, len(texts))
        items = sorted(answer.data, key=lambda item: item.index)
        return vectors_of("Voyage", [item.embedding for item in items], len(texts), self.dimensions)
