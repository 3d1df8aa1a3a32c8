"""OpenAI, and every server that speaks its protocol: Ollama, vLLM and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from penstock_apps.knowledge.embed.embedder import (
    OPEN,
    OPENAI,
    Embedding,
    KeyMissing,
    dimensions_of,
)
from penstock_apps.knowledge.embed.remote import Remote, vectors_of

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

BASE_URL: Final = "https://api.openai.com/v1"
KEY: Final = "OPENAI_API_KEY"
KEY_OF: Final = "PENSTOCK_EMBEDDING_KEY_"
MODEL: Final = "text-embedding-3-small"


class Item(Struct):
    embedding: list[float] | str
    index: int = 0


class Answer(Struct):
    data: list[Item]


class OpenAI:
    shares_calls = True

    def __init__(
        self,
        settings: Embedding,
        environment: Mapping[str, str],
        timeout: float,
        base_url: str = BASE_URL,
    ) -> None:
        self._is_own = settings.base_url is None
        self._base_url = (settings.base_url or base_url).rstrip("/")
        self._name = "OpenAI" if self._is_own else f"The model API at {_host(self._base_url)}"
        self._model = settings.model or MODEL
        self.dimensions, self._asks = dimensions_of(settings, self._model, OPENAI | OPEN)
        self._document_prefix = settings.document_prefix
        self._query_prefix = settings.query_prefix
        # Of OpenAI's 300,000 some are left, since tokens are counted by another tokenizer here.
        self.most_texts, self.most_tokens = (2048, 250_000) if self._is_own else (512, 64_000)
        self._remote = Remote(
            self._name,
            f"{self._base_url}/embeddings",
            self._key(environment),
            timeout,
            key_from=self._key_from,
        )

    @property
    def fingerprint(self) -> str:
        # Two servers may mean two models by one name.
        where = "openai" if self._is_own else f"openai {self._base_url}"
        prefix = f" {self._document_prefix!r}" if self._document_prefix else ""
        return f"{where} {self._model} {self.dimensions}{prefix}"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await self._ask([f"{self._document_prefix}{text}" for text in texts])

    async def embed_query(self, text: str) -> Vectors:
        vectors = await self._ask([f"{self._query_prefix}{text}"])
        vector: Vectors = vectors[0]
        return vector

    async def close(self) -> None:
        await self._remote.close()

    async def _ask(self, texts: list[str]) -> Vectors:
        question: dict[str, Any] = {"model": self._model, "input": texts}
        if self._asks:
            question["dimensions"] = self.dimensions
        if self._is_own:
            # A quarter of the bytes; others may not know it.
            question["encoding_format"] = "base64"
        answer = await self._remote.ask(question, Answer, len(texts))
        items = sorted(answer.data, key=lambda item: item.index)
        return vectors_of(
            self._name, [item.embedding for item in items], len(texts), self.dimensions
        )

    @property
    def _key_from(self) -> str:
        return KEY if self._is_own else key_variable(self._base_url)

    def _key(self, environment: Mapping[str, str]) -> str | None:
        key = environment.get(self._key_from)
        if self._is_own and not key:
            raise KeyMissing("OpenAI", KEY)
        return key


def key_variable(base_url: str) -> str:
    """The variable that holds the key for a server: bound to its name, or a key would go astray."""
    return KEY_OF + "".join(each if each.isalnum() else "_" for each in _host(base_url).upper())


def _host(url: str) -> str:
    """The host, and the port if it is said."""
    return urlsplit(url).netloc
