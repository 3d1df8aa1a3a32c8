import gzip
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.net.decoder import MAX_PIECE_BYTES, Decoder
from penstock.net.errors import FetchFailed, FetchRefused

TEXT = b"A page about pipes. " * 50_000


def unpacked(encoding: str, data: bytes, size: int = 1000) -> bytes:
    decoder = Decoder(encoding)
    pieces = [
        piece
        for start in range(0, len(data), size)
        for piece in decoder.decode(data[start : start + size])
    ]
    decoder.finish()
    return b"".join(pieces)


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", bare(TEXT)),
        ("gzip", gzip.compress(TEXT[:500_000]) + gzip.compress(TEXT[500_000:])),
        ("gzip", gzip.compress(TEXT) + bytes(100)),
    ],
)
def test_a_packed_page_is_unpacked(encoding: str, data: bytes) -> None:
    assert unpacked(encoding, data) == TEXT
    assert unpacked(encoding, data, len(data)) == TEXT


@given(st.binary(max_size=2000), st.integers(3, 50))
@settings(max_examples=30, deadline=None)
def test_in_any_pieces(data: bytes, size: int) -> None:
    assert unpacked("gzip", gzip.compress(data), size) == data


def test_a_bomb_comes_in_small_pieces() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    pieces = Decoder("gzip").decode(bomb)
    assert all(len(next(pieces)) <= MAX_PIECE_BYTES for _ in range(20))


def test_an_empty_page_is_one() -> None:
    assert unpacked("gzip", b"") == b""


def test_what_breaks_off_may_come_whole_another_time() -> None:
    with pytest.raises(FetchFailed, match="broke off"):
        unpacked("gzip", gzip.compress(TEXT)[:-10])


def test_what_is_packed_wrongly_is_refused() -> None:
    with pytest.raises(FetchRefused, match="cannot be decompressed"):
        unpacked("gzip", b"no gzip at all")
    with pytest.raises(FetchRefused, match="cannot be decompressed"):
        unpacked("deflate", b"\xff" * 100)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
def test_what_was_not_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(FetchRefused, match="not requested"):
        Decoder(encoding)
