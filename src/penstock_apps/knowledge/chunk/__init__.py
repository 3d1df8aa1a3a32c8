"""Cut documents into pieces, so that an edit changes only the pieces around it."""

from penstock_apps.knowledge.chunk.chunker import Chunking, split

__all__ = ["Chunking", "split"]
