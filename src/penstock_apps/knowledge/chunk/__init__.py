"""Cut documents into pieces. An edit of one part leaves the pieces of the others as they are."""

from penstock_apps.knowledge.chunk.chunker import Chunking, split

__all__ = ["Chunking", "split"]
