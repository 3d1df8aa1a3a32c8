"""Documents, workbooks, slides and books, as their programs write them."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from xml.etree.ElementTree import fromstring
from zipfile import ZipFile

import pytest

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import office
from penstock_apps.knowledge.extract.archive import Archive, Blocks
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


def test_titles_and_values_of_charts_are_read(read: Read) -> None:
    (slide,) = read("charts.pptx").sections
    assert slide.text == (
        "# Flow\n\nWater by season\n\ncubic metres\n\n"
        "Litres: Spring 1.5; Summer 2\n\nPumps: Spring 3; Summer 4"
    )


def test_docx_headers_footers_and_comments_are_read_once(read: Read) -> None:
    (text,) = read("headers.docx").sections
    assert text.text == "Body.\n\nPump works\n\nConfidential 7\n\nCheck this."


def test_comments_of_a_sheet_are_read_with_their_cells(read: Read) -> None:
    (sheet,) = read("comments.xlsx").sections
    assert sheet.text == "# Stock\n\nName: Small; Litres: 3\n\nB2: Measured in May"


def packed(**parts: str) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_headers_and_comments_of_an_open_document_are_read_once(read: Read) -> None:
    header = "<m><header><p>Pump works</p></header><header-left><p>Pump works</p></header-left></m>"
    note = "<annotation><creator>Ada</creator><p>Check this.</p></annotation>"
    content = packed(
        mimetype="application/vnd.oasis.opendocument.text",
        **{
            "content.xml": f"<d><body><p>Body.{note}</p></body></d>",
            "styles.xml": header,
        },
    )
    (text,) = read("a.odt", content).sections
    assert text.text == "Body.\n\nPump works\n\nCheck this."


def test_diagrams_and_comments_of_slides_are_read(read: Read) -> None:
    root = '<r><Relationship Id="r1" Type="x/{}" Target="{}"/>{}</r>'
    content = packed(
        **{
            "_rels/.rels": root.format("officeDocument", "ppt/p.xml", ""),
            "ppt/p.xml": '<p xmlns:r="r"><sldId r:id="r1"/></p>',
            "ppt/_rels/p.xml.rels": root.format("slide", "s.xml", ""),
            "ppt/s.xml": '<s xmlns:r="r"><relIds r:dm="r1"/></s>',
            "ppt/_rels/s.xml.rels": root.format(
                "diagramData",
                "d.xml",
                '<Relationship Id="r2" Type="x/comments" Target="c.xml"/>',
            ),
            "ppt/d.xml": "<d><pt><t><p><r><t>Drain</t></r></p></t></pt><pt/></d>",
            "ppt/c.xml": "<c><cm><text>Check this.</text></cm></c>",
        }
    )
    (slide,) = read("a.pptx", content).sections
    assert slide.text == "- Drain\n\n**Comments**\n\nCheck this."


def relations(*parts: tuple[str, str]) -> str:
    each = (
        f'<Relationship Id="r{number}" Type="x/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(parts)
    )
    return f"<r>{''.join(each)}</r>"


def slides_with_shared_parts(slides: int, references: int) -> bytes:
    numbers = range(slides)
    shown = "".join(f'<sldId r:id="r{each}"/>' for each in numbers)
    slide = "".join(f'<chart r:id="r{each + 3}"/>' for each in range(references))
    shared = [("notesSlide", "n.xml"), ("comments", "c.xml"), ("diagramData", "d.xml")]
    needed = relations(*shared, *[("chart", "chart.xml")] * references)
    return packed(
        **{
            "_rels/.rels": relations(("officeDocument", "ppt/p.xml")),
            "ppt/p.xml": f'<p xmlns:r="r">{shown}</p>',
            "ppt/_rels/p.xml.rels": relations(*(("slide", f"s{each}.xml") for each in numbers)),
            "ppt/chart.xml": "<c><title><t>Water</t></title></c>",
            "ppt/c.xml": "<c><text>Check this.</text></c>",
            "ppt/d.xml": "<d><pt><t><t>Drain</t></t></pt></d>",
            "ppt/n.xml": "<n><sp><p><t>Speak up.</t></p></sp></n>",
        },
        **{
            f"ppt/s{each}.xml": f'<s xmlns:r="r"><relIds r:dm="r2"/>{slide}</s>' for each in numbers
        },
        **{f"ppt/_rels/s{each}.xml.rels": needed for each in numbers},
    )


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each part of an archive is read."""
    counted = Counter[str]()
    blocks = Archive.blocks

    def counting(archive: Archive, name: str) -> Blocks:
        counted[name] += 1
        return blocks(archive, name)

    monkeypatch.setattr(Archive, "blocks", counting)
    return counted


def test_a_part_is_read_once_however_often_it_is_referred_to(
    read: Read, reads: Counter[str]
) -> None:
    first, *others = read("a.pptx", slides_with_shared_parts(10, 1000)).sections
    for said in ("Water", "Drain", "Speak up.", "Check this."):
        assert first.text.count(said) == 1
    assert not others
    assert set(reads.values()) == {1}


def test_comments_that_sheets_share_are_read_once(read: Read, reads: Counter[str]) -> None:
    sheets = range(20)
    content = packed(
        **{
            "xl/workbook.xml": '<w xmlns:r="r">'
            + "".join(f'<sheet name="S{each}" r:id="r{each}"/>' for each in sheets)
            + "</w>",
            "xl/_rels/workbook.xml.rels": relations(
                *(("worksheet", f"s{each}.xml") for each in sheets)
            ),
            "xl/c.xml": '<c><comment ref="A1"><text><t>Check this.</t></text></comment></c>',
        },
        **{f"xl/s{each}.xml": "<s><row><c><v>1</v></c></row></s>" for each in sheets},
        **{f"xl/_rels/s{each}.xml.rels": relations(("comments", "c.xml")) for each in sheets},
    )
    found = read("a.xlsx", content).sections
    assert [section.text.count("Check this.") for section in found] == [1] + [0] * 19
    assert set(reads.values()) == {1}


def test_links_between_parts_without_end_are_refused(read: Read) -> None:
    with pytest.raises(Unreadable, match="more than 5,000 links") as refused:
        read("a.pptx", slides_with_shared_parts(10, 1000), references=5_000)
    assert refused.value.reason == "too_large"


def test_items_of_lists_are_indented_within_bounds() -> None:
    lists = "<list><list-item>" * 100 + "<p>x</p>" + "</list-item></list>" * 100
    assert [*office.odf_blocks(fromstring(f"<d>{lists}</d>"))] == ["  " * 8 + "- x"]
