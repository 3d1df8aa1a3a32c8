"""Documents, workbooks, slides and books, as their programs write them."""

from __future__ import annotations

import pytest

from tests.knowledge.extract.conftest import FILES, Read


def test_a_word_document_keeps_headings_lists_and_tables(read: Read) -> None:
    found = read("valves.docx")
    assert found.title == "The valve manual"
    assert found.metadata == {"author": "A. Writer"}
    assert found.sections[0].text == "\n".join(
        [
            "# Valves",
            "",
            "A valve stops the water.",
            "",
            "## Kinds",
            "",
            "- Gate valve",
            "- Ball valve",
            "",
            "| Kind | Turns |",
            "| --- | --- |",
            "| Ball | 1/4 |",
            "",
            "In a content control.",
            "",
            "Inserted later.",
        ]
    )


def test_a_workbook_is_a_section_a_sheet_and_a_line_a_row(read: Read) -> None:
    found = read("stock.xlsx")
    assert [(section.page, section.text.split("\n")[0]) for section in found.sections] == [
        (1, "# Pumps"),
        (2, "# Notes"),
    ]
    assert found.sections[0].text.split("\n\n")[1:] == [
        "Name: Small | one; Litres: 12.5; Bought: 2024-02-29; Works: true",
        "Name: Large; Litres: 1000; Bought: 2025-01-31 08:30:00; Works: false",
        "far away",
    ]


def test_a_presentation_is_a_section_a_slide_with_its_notes(read: Read) -> None:
    first, second = read("frost.pptx").sections
    assert first.page == 1
    assert first.text == (
        "# Before frost\n\n- Drain the casing\n- Close the inlet\n\n"
        "**Notes**\n\nShow the photo of the burst pipe."
    )
    assert second.text == "# After frost\n\n| Part | Check |\n| --- | --- |\n| Seal | Cracks |"


def test_an_open_document_keeps_headings_lists_and_tables(read: Read) -> None:
    found = read("seals.odt")
    assert found.title == "The seal manual"
    assert found.sections[0].text == (
        "# Seals\n\nA seal keeps the water in.\n\n- rubber\n  - black\n\n"
        "| Seal | Size |\n| --- | --- |\n| O-ring | 12 |"
    )


def test_an_open_sheet_repeats_no_empty_rows(read: Read) -> None:
    (sheet,) = read("seals.ods").sections
    assert sheet.text == "# Seals\n\nSeal: O-ring; Size: 12\n\nSeal: Lip; Size: 14"


def test_open_slides_have_their_numbers(read: Read) -> None:
    found = read("slides.odp").sections
    assert [(slide.page, slide.text) for slide in found] == [
        (1, "First slide"),
        (2, "Second slide"),
    ]


def test_a_book_is_a_section_a_chapter_without_its_contents(read: Read) -> None:
    found = read("book.epub")
    assert found.title == "The book of pumps"
    assert found.metadata == {"author": "A. Writer", "language": "en"}
    assert [chapter.text for chapter in found.sections] == [
        "# How it began\n\nOnce there was a bucket.",
        "# How it went on\n\nThen came the screw.",
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("valves.docx", "docx"), ("stock.xlsx", "xlsx"), ("frost.pptx", "pptx"), ("seals.odt", "odt")],
)
def test_a_document_is_known_whatever_its_name(read: Read, name: str, kind: str) -> None:
    assert read("upload.zip", (FILES / name).read_bytes()).kind == kind
