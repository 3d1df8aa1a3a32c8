"""A document's text, cut into pieces that stay the same when another part of it is edited."""

from penstock_apps.knowledge.chunk.pieces import split
from penstock_apps.knowledge.chunk.settings import Chunking

__all__ = ["Chunking", "split"]
