"""Texts in, vectors out: a model from a wheel, or one that is asked over HTTP."""

from penstock_apps.knowledge.embed.choice import embedder_of
from penstock_apps.knowledge.embed.embedder import Embedder, Vectors
from penstock_apps.knowledge.embed.errors import KeyMissing, Misfit, Refused
from penstock_apps.knowledge.embed.settings import Embedding

__all__ = [
    "Embedder",
    "Embedding",
    "KeyMissing",
    "Misfit",
    "Refused",
    "Vectors",
    "embedder_of",
]
