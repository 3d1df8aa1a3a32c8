"""Text in pictures."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from zlib import compress, crc32

import pytest

from penstock_apps.knowledge.errors import Skipped, Unreadable
from penstock_apps.knowledge.extract import ocr
from tests.knowledge.extract.conftest import Read
from tests.knowledge.extract.test_pdf import TESSERACT

PNG = b"\x89PNG\r\n\x1a\n\x00a picture"


@pytest.fixture
def without_tesseract(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", "/nowhere")
    ocr.available.cache_clear()
    yield
    ocr.available.cache_clear()


@TESSERACT
def test_a_picture_gives_the_text_in_it(read: Read) -> None:
    found = read("scan.png")
    assert found.kind == "image"
    assert "in September by two people" in found.sections[0].text


@TESSERACT
def test_a_broken_picture_says_so(read: Read) -> None:
    with pytest.raises(Unreadable, match="Save it as PNG") as refused:
        read("a.png", b"\x89PNG\r\n\x1a\n\x00and no more")
    assert refused.value.reason == "broken"


@pytest.mark.usefixtures("without_tesseract")
def test_picture_is_skipped_with_a_remedy_without_tesseract(read: Read) -> None:
    with pytest.raises(Skipped, match="apt-get install tesseract-ocr"):
        read("scan.png")


@pytest.mark.usefixtures("without_tesseract")
def test_scan_fails_with_a_remedy_without_tesseract(read: Read) -> None:
    with pytest.raises(Unreadable, match="apt-get install tesseract-ocr") as refused:
        read("scan.pdf")
    assert refused.value.reason == "no_text"


@TESSERACT
def test_blank_picture_does_not_blame_an_installed_tesseract(read: Read) -> None:
    with pytest.raises(Unreadable, match="send a sharper one") as refused:
        read("blank.png", blank())
    assert refused.value.reason == "no_text"


def blank() -> bytes:
    """A white picture in grey, 100 by 100 dots."""
    rows = compress((b"\x00" + b"\xff" * 100) * 100)
    size = pack(">IIBBBBB", 100, 100, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", size), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        pack(">I", len(data)) + name + data + pack(">I", crc32(name + data))
        for name, data in chunks
    )


@pytest.fixture
def tesseract_that_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    ocr.available.cache_clear()
    yield
    ocr.available.cache_clear()


@pytest.mark.usefixtures("tesseract_that_names_its_file")
def test_what_is_in_a_file_is_unpacked_beside_it(read: Read, tmp_path: Path) -> None:
    """There it goes with what a killed process has left."""
    unpacked = Path(read("a.png.gz", gzip.compress(PNG)).sections[-1].text)
    assert unpacked.parents[1] == tmp_path
    assert not unpacked.parent.exists()
