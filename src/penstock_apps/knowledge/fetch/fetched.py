"""A page that was fetched."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


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
