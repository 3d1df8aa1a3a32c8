"""A page that was fetched."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from penstock_apps.knowledge.media_type import media_type


class Fetched(Struct, frozen=True):
    """It stands at `path`, unpacked, and belongs to who fetched it."""

    path: Path
    digest: bytes
    bytes: int
    media_type: str
    final_url: str
    charset: str | None = None
    etag: str | None = None
    last_modified: str | None = None

    @property
    def content_type(self) -> str:
        """The media type, with the encoding that the server declares unless that is UTF-8."""
        return media_type(self.media_type, self.charset)
