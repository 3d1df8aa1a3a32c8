"""Models that are known by their name, and how many dimensions they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock import ConfigError
from penstock_apps.knowledge.embed.settings import Embedding

OPENAI: Final = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
# Served by Ollama and its like.
OPEN: Final = {
    "all-minilm": 384,
    "bge-m3": 1024,
    "embeddinggemma": 768,
    "mxbai-embed-large": 1024,
    "nomic-embed-text": 768,
    "snowflake-arctic-embed2": 1024,
}
COHERE: Final = {
    "embed-v4.0": 1536,
    "embed-english-v3.0": 1024,
    "embed-multilingual-v3.0": 1024,
    "embed-english-light-v3.0": 384,
    "embed-multilingual-light-v3.0": 384,
}
VOYAGE: Final = {
    "voyage-3-large": 1024,
    "voyage-3.5": 1024,
    "voyage-3.5-lite": 1024,
    "voyage-code-3": 1024,
    "voyage-finance-2": 1024,
    "voyage-law-2": 1024,
}


def dimensions_of(settings: Embedding, model: str, known: Mapping[str, int]) -> tuple[int, bool]:
    """How many dimensions the vectors have, and whether they must be asked for."""
    own = known.get(model)
    if settings.dimensions is None:
        if own is None:
            raise ConfigError(
                "embedding.dimensions", None, f"the number that the model {model} has"
            )
        return own, False
    if own is None:
        return settings.dimensions, settings.shorten
    if settings.dimensions > own:
        raise ConfigError(
            "embedding.dimensions", settings.dimensions, f"at most {own:,} with {model}"
        )
    return settings.dimensions, settings.dimensions != own
