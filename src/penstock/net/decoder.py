"""Decompress the body of a response in small pieces."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from penstock.net.errors import FetchFailed, FetchRefused

ACCEPTED = "gzip, deflate"
MAX_PIECE_BYTES = 256 * 1024
UNCOMPRESSED_ENCODINGS = ("", "identity")
COMPRESSED_ENCODINGS = ("gzip", "x-gzip", "deflate")

# How zlib is told which header to expect.
GZIP_OR_ZLIB_HEADER = 32 + zlib.MAX_WBITS
NO_HEADER = -zlib.MAX_WBITS

GZIP_MAGIC = b"\x1f\x8b"


class Decoder:
    """Decompresses a body in small pieces.

    The caller can count the bytes of the pieces, and stop before they become too many.
    """

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in UNCOMPRESSED_ENCODINGS + COMPRESSED_ENCODINGS:
            raise FetchRefused(
                "encoding",
                f"The server has compressed the page with {encoding[:40]!r}, which was not "
                "requested.",
            )
        self.is_compressed = encoding in COMPRESSED_ENCODINGS
        self._may_lack_header = encoding == "deflate"
        self._stream = zlib.decompressobj(GZIP_OR_ZLIB_HEADER)
        self._begun = False
        self._ended = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        if not self.is_compressed:
            yield data
            return
        # Several gzip files in a row are one. Any other data after an end is ignored.
        while not self._ended or data.startswith(GZIP_MAGIC):
            if self._ended:
                self._stream = zlib.decompressobj(GZIP_OR_ZLIB_HEADER)
            piece = self._decompress(data)
            if piece:
                yield piece
            self._ended = self._stream.eof
            data = self._stream.unused_data if self._ended else self._stream.unconsumed_tail
            if not data and (self._ended or len(piece) < MAX_PIECE_BYTES):
                return

    def finish(self) -> None:
        """Raise `FetchFailed` if the body is incomplete. Call this after decoding all data."""
        if self.is_compressed and self._begun and not self._ended:
            raise FetchFailed("The page broke off before its end.")

    def _decompress(self, data: bytes) -> bytes:
        begun, self._begun = self._begun, True
        try:
            return self._stream.decompress(data, MAX_PIECE_BYTES)
        except zlib.error as error:
            if begun or not self._may_lack_header:
                raise FetchRefused(
                    "encoding", f"The page cannot be decompressed ({error})."
                ) from error
        # Some servers send deflate without the header that it should have.
        self._stream = zlib.decompressobj(NO_HEADER)
        return self._decompress(data)
