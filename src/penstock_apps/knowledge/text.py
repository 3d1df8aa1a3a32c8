"""The text of a document on its way from a file to a vector."""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

HASH_BYTES = 16


class Section(Struct, frozen=True):
    """A page, a slide, a sheet, or a whole document that has none of these; as Markdown."""

    text: str
    page: int | None = None


class Attachment(Struct, frozen=True):
    """A file that came with a mail."""

    name: str
    media_type: str
    content: bytes


class Extracted(Struct, frozen=True):
    """What was read out of a file."""

    sections: tuple[Section, ...]
    kind: str
    title: str | None = None
    metadata: dict[str, str] = {}
    attachments: tuple[Attachment, ...] = ()


class Piece(Struct, frozen=True):
    """A part of a document that is embedded and found as one."""

    text: str
    tokens: int
    heading: str = ""
    page: int | None = None

    @property
    def embedded(self) -> str:
        """Exactly the text that is embedded."""
        return f"{self.heading}\n\n{self.text}" if self.heading else self.text

    @property
    def hash(self) -> bytes:
        """What tells whether that text was embedded before."""
        return blake2b(self.embedded.encode(), digest_size=HASH_BYTES).digest()
