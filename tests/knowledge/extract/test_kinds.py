"""What a file is taken for."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from random import Random
from zipfile import ZipFile

import pytest

from penstock_apps.knowledge.errors import Skipped, Unreadable
from penstock_apps.knowledge.extract import sniff
from tests.knowledge.extract.conftest import Read


@pytest.mark.parametrize(
    ("content", "name", "media_type", "kind"),
    [
        (b"%PDF-1.7\n", "a.pdf", None, "pdf"),
        (b"\n\n%PDF-1.7\n", "noname", None, "pdf"),
        (b"# About %PDF-1.7", "a.md", None, "markdown"),
        (b"<!doctype HTML><p>", "report.pdf", None, "html"),
        (b'<?xml version="1.0"?>\n<html xmlns="x">', "noname", None, "html"),
        (b"<p>some words", "noname", "text/html; charset=utf-8", "html"),
        (b"a,b\n1,2", "noname", "text/csv", "csv"),
        (b"plain words", "README", None, "text"),
        (b"plain words", "odd.name", "application/octet-stream", "text"),
        (b"BMW is a car maker", "cars.txt", None, "text"),
        (b"\x89PNG\r\n\x1a\n\x00", "photo.txt", None, "image"),
        (b"{\\rtf1 x}", "a.doc", None, "rtf"),
        (b"\x00\x01\x02\x03", "a.bin", None, None),
        (b"\x00\x01\x02", "x.bin", None, None),
        (b"\x01\x00\x02\x00", "x.bin", None, None),
        (b"\xff\xfe\x01\x00\x02\x00", "x.bin", None, None),
        (b"\x01\x02", "x.bin", None, None),
        (b"\x1b\x1b", "x.bin", None, None),
        (b"a\x00", "x.bin", None, "text"),
        (b"\x7fELF\x02\x01\x01\x00", "program", None, None),
        (b"p { color: red }", "a.css", None, None),
        (b"PK\x03\x04 and so on", "a.zip", None, None),
        (b"PK\x03\x04 and so on", "a.docx", None, "docx"),
    ],
)
def test_content_counts_more_than_names(
    tmp_path: Path, content: bytes, name: str, media_type: str | None, kind: str | None
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert sniff(path, name, media_type) == kind


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("book.xlsb", {"xl/workbook.bin": "\x00"}),
        ("drawing.odg", {"mimetype": "application/vnd.oasis.opendocument.graphics"}),
        ("folder.zip", {"a.md": "# Words"}),
    ],
)
def test_what_is_packed_and_not_read_is_skipped(
    read: Read, name: str, content: dict[str, str]
) -> None:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for part, text in content.items():
            archive.writestr(part, text)
    with pytest.raises(Skipped, match=rf"such as \.{name[-3:]}|such as \.{name[-4:]}"):
        read(name, packed.getvalue())


@pytest.mark.parametrize("name", ["a.ps", "a.eps", "print.txt"])
def test_postscript_is_not_read_as_text(read: Read, name: str) -> None:
    with pytest.raises(Unreadable):
        read(name, b"%!PS-Adobe-3.0\n/Times findfont 12 scalefont setfont (Hello) show")


def test_a_saved_web_page_is_read_as_a_page(read: Read) -> None:
    head = "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=a\n\n"
    page = "--a\nContent-Type: text/html\n\n<h1>Frost</h1><p>Drain it.\n--a--"
    assert "# Frost\n\nDrain it." in read("a.mht", head + page).sections[0].text


def test_what_nobody_reads_is_skipped_with_a_way_out(read: Read) -> None:
    with pytest.raises(Skipped, match=r"such as \.exe are not read. Save it as PDF") as skipped:
        read("setup.exe", b"MZ\x00\x01")
    assert skipped.value.reason == "unsupported"


@pytest.mark.parametrize(
    "suffix", [".md", ".txt", ".log", ".csv", ".html", ".json", ".jsonl", ".py", ".eml", ".rtf"]
)
@pytest.mark.parametrize(
    "content",
    [Random(8).randbytes(5000), b"two \x00 NULs \x00 in words"],
    ids=["random", "two NULs"],
)
def test_what_is_no_text_is_not_read_as_text(read: Read, suffix: str, content: bytes) -> None:
    with pytest.raises(Unreadable, match="but its content is not text") as refused:
        read(f"notes{suffix}", content)
    assert refused.value.reason == "broken"
    assert not isinstance(refused.value, Skipped)
    assert str(refused.value).startswith(f"The file's name ends in {suffix}, ")


def test_a_zip_named_as_text_is_not_read_as_text(read: Read) -> None:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("notes.md", "# Words")
    with pytest.raises(Unreadable, match="but its content is not text"):
        read("notes.md", packed.getvalue())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
@pytest.mark.parametrize("name", ["notes.md", "notes.txt", "notes.html"])
def test_text_in_any_encoding_is_text_under_any_name(read: Read, name: str, encoding: str) -> None:
    assert read(name, "Café notes, naïve".encode(encoding)).sections[0].text == "Café notes, naïve"
