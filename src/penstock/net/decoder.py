"""Unpacks what a server has packed for its way, a little at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from penstock.net.errors import FetchFailed, FetchRefused

ACCEPTED = "gzip, deflate"
PIECE = 256 * 1024
AS_IT_IS = ("", "identity")
PACKED = ("gzip", "x-gzip", "deflate")

EITHER_HEADER = 32 + zlib.MAX_WBITS
GZIP = b"\x1f\x8b"
NO_HEADER = -zlib.MAX_WBITS


class Decoder:
    """Gives small pieces, so that who counts them can stop before a bomb has gone off."""

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in AS_IT_IS + PACKED:
            raise FetchRefused(
                "encoding",
                f"The server packs the page as {encoding[:40]!r}, which was not asked for.",
            )
        self.packed = encoding in PACKED
        self._bare_allowed = encoding == "deflate"
        self._stream = zlib.decompressobj(EITHER_HEADER)
        self._begun = False
        self._ended = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        if not self.packed:
            yield data
            return
        # Several packed files in a row are one; what else stands behind an end is no part of it.
        while not self._ended or data.startswith(GZIP):
            if self._ended:
                self._stream = zlib.decompressobj(EITHER_HEADER)
            piece = self._unpack(data)
            if piece:
                yield piece
            self._ended = self._stream.eof
            data = self._stream.unused_data if self._ended else self._stream.unconsumed_tail
            if not data and (self._ended or len(piece) < PIECE):
                return

    def finish(self) -> None:
        """Say that nothing more comes."""
        if self.packed and self._begun and not self._ended:
            raise FetchFailed("The page broke off before its end.")

    def _unpack(self, data: bytes) -> bytes:
        begun, self._begun = self._begun, True
        try:
            return self._stream.decompress(data, PIECE)
        except zlib.error as error:
            if begun or not self._bare_allowed:
                raise FetchRefused("encoding", f"The page is packed wrongly ({error}).") from error
        # Some servers mean deflate without the header that it should have.
        self._stream = zlib.decompressobj(NO_HEADER)
        return self._unpack(data)
