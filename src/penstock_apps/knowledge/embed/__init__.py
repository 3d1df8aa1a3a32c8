"""Embed texts: with a model that comes as a wheel, or with a model API over HTTP."""

from penstock_apps.knowledge.embed.choice import embedder_of
from penstock_apps.knowledge.embed.embedder import (
    Embedder,
    Embedding,
    KeyMissing,
    Misfit,
    Refused,
    Vectors,
)

__all__ = [
    "Embedder",
    "Embedding",
    "KeyMissing",
    "Misfit",
    "Refused",
    "Vectors",
    "embedder_of",
]
