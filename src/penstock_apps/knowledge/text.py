"""The text of a document while it is ingested: its sections, attachments and pieces."""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

HASH_BYTES = 16


class Section(Struct, frozen=True):
    """The Markdown of a page, a slide or a sheet, or of a document without any of these."""

    text: str
    page: int | None = None


class Attachment(Struct, frozen=True):
    """A file that is attached to a mail."""

    name: str
    media_type: str
    content: bytes


class Extracted(Struct, frozen=True):
    """The text and the facts that were read from a file."""

    sections: tuple[Section, ...]
    kind: str
    title: str | None = None
    metadata: dict[str, str] = {}
    attachments: tuple[Attachment, ...] = ()


class Piece(Struct, frozen=True):
    """A part of a document that is embedded and found as one chunk."""

    text: str
    tokens: int
    heading: str = ""
    page: int | None = None

    @property
    def embedded(self) -> str:
        """The exact text that is embedded: the heading and the text."""
        return f"{self.heading}\n\n{self.text}" if self.heading else self.text

    @property
    def hash(self) -> bytes:
        """The hash of the embedded text, by which known vectors are found."""
        return blake2b(self.embedded.encode(), digest_size=HASH_BYTES).digest()
