"""PDF files, page by page."""

from __future__ import annotations

import shutil

import pytest

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import ocr
from tests.knowledge.extract.conftest import FILES, Read

TESSERACT = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")


def test_each_page_is_a_section_with_its_number(read: Read) -> None:
    found = read("manual.pdf")
    assert [section.page for section in found.sections] == [1, 2]
    assert found.kind == "pdf"


def test_bookmarks_become_headings(read: Read) -> None:
    first, second = read("manual.pdf").sections
    assert first.text.startswith("# 1 Starting the pump\n\nOpen the inlet valve")
    assert second.text == "## 1.1 In winter\n\nDrain the casing when frost is near."


def test_a_word_cut_at_the_end_of_a_line_is_whole_again(read: Read) -> None:
    assert "completely filled" in read("manual.pdf").sections[0].text


def test_pdf_text_escapes_markdown_and_drops_dot_leaders(read: Read) -> None:
    lines = read("manual.pdf").sections[0].text.split("\n")
    assert lines[-2:] == [r"\# is the sign of a number here", "Contents … 7"]


def test_the_title_is_what_the_author_called_it(read: Read) -> None:
    found = read("manual.pdf")
    assert found.title == "The pump manual"
    assert found.metadata == {"author": "A. Writer", "pages": "2"}


def test_half_a_character_in_a_title_or_a_bookmark_is_left_out(read: Read) -> None:
    line = b"BT /F 9 Tf 9 780 Td (Weirs) Tj 0 -12 Td (They hold water.) Tj ET"
    objects = [
        b"1 0 obj <</Type /Catalog /Pages 2 0 R /Outlines 6 0 R>> endobj",
        b"2 0 obj <</Type /Pages /Count 1 /Kids [4 0 R]>> endobj",
        b"3 0 obj <</Length %d>> stream\n%b\nendstream endobj" % (len(line), line),
        b"4 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 3 0 R "
        b"/Resources <</Font <</F <</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>>>>>>> "
        b"endobj",
        b"5 0 obj <</Title <FEFF0061D8000062> /Author <FEFFDC00>>> endobj",
        b"6 0 obj <</First 7 0 R /Last 7 0 R /Count 1>> endobj",
        b"7 0 obj <</Title <FEFF0057D8000065006900720073> /Parent 6 0 R "
        b"/Dest [4 0 R /Fit]>> endobj",
    ]
    trailer = b"trailer <</Root 1 0 R /Info 5 0 R>>\n%%EOF"
    found = read("a.pdf", b"\n".join([b"%PDF-1.4", *objects, trailer]))
    assert (found.title, found.metadata) == ("ab", {"pages": "1"})
    assert found.sections[0].text == "# Weirs\n\nThey hold water."


def test_a_password_is_said_to_be_the_trouble(read: Read) -> None:
    with pytest.raises(Unreadable, match="locked with a password") as refused:
        read("locked.pdf")
    assert refused.value.reason == "encrypted"


def test_too_many_pages_are_refused(read: Read) -> None:
    with pytest.raises(Unreadable, match=r"has 2 pages; at most 1") as refused:
        read("manual.pdf", pages=1)
    assert refused.value.reason == "too_many_pages"


@pytest.mark.parametrize("kept", [9, 300, 1500])
def test_a_file_cut_short_is_broken_or_gives_what_is_left(read: Read, kept: int) -> None:
    content = (FILES / "manual.pdf").read_bytes()[:kept]
    with pytest.raises(Unreadable) as refused:
        read("manual.pdf", content)
    assert refused.value.reason == "broken"


@TESSERACT
def test_a_scan_is_read_from_its_picture(read: Read) -> None:
    found = read("scan.pdf")
    assert "turbine was serviced" in found.sections[0].text
    assert found.sections[0].page == 1


@TESSERACT
def test_a_page_that_takes_ocr_too_long_is_one_without_text(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ocr, "TIMEOUT_S", 0)
    with pytest.raises(Unreadable, match="No text was found") as refused:
        read("scan.pdf")
    assert refused.value.reason == "no_text"


def test_a_scan_beyond_what_is_read_by_ocr_has_no_text(read: Read) -> None:
    with pytest.raises(Unreadable, match="If it is a scan") as refused:
        read("scan.pdf", scanned=0)
    assert refused.value.reason == "no_text"
