"""A document's text, cut into pieces that stay the same when another part of it is edited."""

from penstock_apps.knowledge.chunk.chunker import Chunking, split

__all__ = ["Chunking", "split"]
