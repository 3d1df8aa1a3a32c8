"""Embed texts with a model that is installed as a wheel, or with a model API over HTTP."""

from penstock_apps.knowledge.embed.choice import embedder_of
from penstock_apps.knowledge.embed.embedder import (
    CallRefused,
    Embedder,
    EmbedderMisfit,
    Embedding,
    KeyMissing,
    Vectors,
)

__all__ = [
    "CallRefused",
    "Embedder",
    "EmbedderMisfit",
    "Embedding",
    "KeyMissing",
    "Vectors",
    "embedder_of",
]
