"""Embed with OpenAI, or with any server that speaks its protocol: Ollama, vLLM and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from penstock_apps.knowledge.embed.embedder import (
    OPEN_MODEL_DIMENSIONS,
    OPENAI_DIMENSIONS,
    Embedding,
    KeyMissing,
    dimensions_of,
)
from penstock_apps.knowledge.embed.remote import Remote, vectors_of

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

BASE_URL: Final = "https://api.openai.com/v1"
KEY_VARIABLE: Final = "OPENAI_API_KEY"
KEY_VARIABLE_PREFIX: Final = "PENSTOCK_EMBEDDING_KEY_"
DEFAULT_MODEL: Final = "text-embedding-3-small"


class OpenAIEmbedding(Struct):
    embedding: list[float] | str
    index: int = 0


class OpenAIAnswer(Struct):
    data: list[OpenAIEmbedding]


class OpenAI:
    shares_calls = True

    def __init__(
        self,
        settings: Embedding,
        environment: Mapping[str, str],
        timeout: float,
        base_url: str = BASE_URL,
    ) -> None:
        self._is_openai = settings.base_url is None
        self._base_url = (settings.base_url or base_url).rstrip("/")
        self._name = "OpenAI" if self._is_openai else f"The model API at {_host(self._base_url)}"
        self._model = settings.model or DEFAULT_MODEL
        self.dimensions, self._sends_dimensions = dimensions_of(
            settings, self._model, OPENAI_DIMENSIONS | OPEN_MODEL_DIMENSIONS
        )
        self._document_prefix = settings.document_prefix
        self._query_prefix = settings.query_prefix
        # OpenAI accepts 300,000 tokens per call. Penstock counts them with another tokenizer, so
        # some room is left.
        self.max_texts, self.max_tokens = (2048, 250_000) if self._is_openai else (512, 64_000)
        self._remote = Remote(
            self._name,
            f"{self._base_url}/embeddings",
            self._key(environment),
            timeout,
            key_from=self._key_from,
        )

    @property
    def fingerprint(self) -> str:
        # Two servers may have different models under one name.
        server = "openai" if self._is_openai else f"openai {self._base_url}"
        prefix = f" {self._document_prefix!r}" if self._document_prefix else ""
        return f"{server} {self._model} {self.dimensions}{prefix}"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await self._ask([f"{self._document_prefix}{text}" for text in texts])

    async def embed_query(self, text: str) -> Vectors:
        vectors = await self._ask([f"{self._query_prefix}{text}"])
        vector: Vectors = vectors[0]
        return vector

    async def close(self) -> None:
        await self._remote.close()

    async def _ask(self, texts: list[str]) -> Vectors:
        body: dict[str, Any] = {"model": self._model, "input": texts}
        if self._sends_dimensions:
            body["dimensions"] = self.dimensions
        if self._is_openai:
            # Base64 takes a quarter of the bytes. Other servers may not know it.
            body["encoding_format"] = "base64"
        answer = await self._remote.ask(body, OpenAIAnswer, len(texts))
        items = sorted(answer.data, key=lambda item: item.index)
        return vectors_of(
            self._name, [item.embedding for item in items], len(texts), self.dimensions
        )

    @property
    def _key_from(self) -> str:
        return KEY_VARIABLE if self._is_openai else key_variable(self._base_url)

    def _key(self, environment: Mapping[str, str]) -> str | None:
        key = environment.get(self._key_from)
        if self._is_openai and not key:
            raise KeyMissing("OpenAI", KEY_VARIABLE)
        return key


def key_variable(base_url: str) -> str:
    """Return the name of the environment variable that contains a server's key.

    The name includes the server's host, so that the key is never sent to another server.
    """
    host = _host(base_url).upper()
    return KEY_VARIABLE_PREFIX + "".join(each if each.isalnum() else "_" for each in host)


def _host(url: str) -> str:
    """Return the host, with the port if the URL has one."""
    return urlsplit(url).netloc
