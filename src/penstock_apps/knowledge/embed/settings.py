"""Which model makes the vectors of a knowledge base."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from penstock import ConfigError

Provider = Literal["wordllama", "minilm", "openai", "cohere", "voyage"]

# What an index of half precision can hold.
MOST_DIMENSIONS: Final = 4000


class Embedding(Struct, frozen=True):
    """Which model makes the vectors; stored with an edition, so it holds no secret.

    Keys are read from the environment: OPENAI_API_KEY, COHERE_API_KEY, VOYAGE_API_KEY. A server of
    your own that wants one has it in a variable of its name, so that no key goes to another:
    PENSTOCK_EMBEDDING_KEY_ and the host of `base_url`, as PENSTOCK_EMBEDDING_KEY_MODELS_ACME_ORG.
    """

    provider: Provider = "wordllama"
    model: str | None = None
    dimensions: int | None = None
    """Left out, those that the model is known to have."""
    shorten: bool = False
    """Ask the model for so few dimensions; one that is not known here is taken to have them."""
    base_url: str | None = None
    """Of a server that speaks OpenAI's protocol (Ollama, vLLM, …), as in http://localhost:11434/v1."""
    document_prefix: str = ""
    query_prefix: str = ""
    """What some models want before a text, as nomic-embed-text does with "search_query: "."""

    def __post_init__(self) -> None:
        if self.dimensions is not None and not 1 <= self.dimensions <= MOST_DIMENSIONS:
            raise ConfigError(
                "embedding.dimensions", self.dimensions, f"from 1 to {MOST_DIMENSIONS:,}"
            )
        if self.base_url is not None:
            _check_address(self.base_url)
        if self.provider != "openai":
            for name in ("base_url", "document_prefix", "query_prefix"):
                if value := getattr(self, name):
                    raise ConfigError(
                        f"embedding.{name}", value, "set for the provider openai alone"
                    )


def _check_address(url: str) -> None:
    if "@" in url:
        raise ConfigError("embedding.base_url", "…", "an address without a name and a password")
    if not url.startswith(("http://", "https://")) or not urlsplit(url).hostname:
        raise ConfigError("embedding.base_url", url, "an http or https address")
