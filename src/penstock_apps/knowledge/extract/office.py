"""Read the text of Word, PowerPoint and OpenDocument files in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract.archive import (
    Archive,
    dublin_core,
    locked_error,
    outermost,
    properties,
)
from penstock_apps.knowledge.extract.detect import MIMETYPES
from penstock_apps.knowledge.extract.limits import ReadLimits
from penstock_apps.knowledge.extract.tables import list_item, records, table
from penstock_apps.knowledge.text import Extracted, Section

# The text of a chart is its titles, and each series with its values.


def charts(archive: Archive, parent: Element, part: str) -> Iterator[str]:
    """Yield the texts of the charts and diagrams in a slide or a document. Each is read once."""
    identifiers = [
        identifier
        for element in parent.iter()
        if element.tag in ("chart", "relIds")
        and (identifier := element.get(":id") or element.get(":dm"))
    ]
    related = archive.related(part) if identifiers else {}
    for identifier in dict.fromkeys(identifiers):
        kind, name = related.get(identifier, ("", ""))
        if kind == "chart" and archive.take_once(name):
            yield from chart(archive.xml(name))
        elif kind == "diagramData" and archive.take_once(name):
            yield "\n".join(f"- {point}" for point in diagram_points(archive.xml(name)))


def chart(root: Element) -> Iterator[str]:
    for title in root.iter("title"):
        if text := chart_text(title):
            yield text
    for series in root.iter("ser"):
        labels = cached_values(series.find("cat"), series.find("xVal"))
        values = cached_values(series.find("val"), series.find("yVal"))
        pairs = (f"{labels.get(at, '')} {value}".strip() for at, value in values.items())
        if text := "; ".join(pairs):
            name = chart_text(series.find("tx"))
            yield f"{name}: {text}" if name else text


def chart_text(element: Element | None) -> str:
    """Return the text of a chart's element.

    The text may be a copy that the chart keeps of a cell of a sheet.
    """
    if element is None:
        return ""
    pieces = (piece.text or "" for piece in element.iter() if piece.tag in ("t", "v"))
    return " ".join(" ".join(pieces).split())


def cached_values(*elements: Element | None) -> dict[str, str]:
    """Return the values that the chart last copied from a sheet, by their index.

    A label may have several levels, which are joined.
    """
    values: dict[str, list[str]] = {}
    for element in elements:
        for point in element.iter("pt") if element is not None else ():
            values.setdefault(point.get("idx", ""), []).append(point.findtext("v") or "")
    return {at: " ".join(reversed(levels)) for at, levels in values.items()}


def diagram_points(diagram: Element) -> Iterator[str]:
    for point in diagram.iter("pt"):
        if text := chart_text(point.find("t")):
            yield text


# Word documents have paragraphs, headings, lists and tables.

DOCX_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
# Deleted text, second copies of a text, and codes of fields.
DOCX_UNREAD = frozenset(
    {"del", "moveFrom", "Fallback", "instrText", "delText", "pPr", "rPr", "fldChar"}
)
MAX_HEADING_LEVEL = 6
# These parts follow the text.
DOCX_EXTRA_PARTS = ("footnotes", "endnotes", "header", "footer", "comments")


def read_docx(path: Path, name: str, limits: ReadLimits) -> Extracted:
    with Archive(path, limits) as archive:
        main = archive.part("officeDocument") or "word/document.xml"
        levels = docx_heading_levels(archive, main)
        body = archive.xml(main)
        blocks = [*docx_blocks(body, levels), *charts(archive, body, main)]
        for kind in DOCX_EXTRA_PARTS:
            # Each kind of page may have its own header, and most have the same text.
            blocks += dict.fromkeys(
                block
                for part in archive.parts(kind, main)
                for block in docx_blocks(archive.xml(part), levels)
            )
        metadata = properties(archive)
    title = metadata.pop("title", None)
    return Extracted((Section("\n".join(blocks)),), kind="docx", title=title, metadata=metadata)


def docx_heading_levels(archive: Archive, main: str) -> dict[str, int]:
    """Return the heading level of each style for headings, by the style's id.

    A style may inherit its level from the style that it is based on.
    """
    part = archive.part("styles", main)
    if part is None:
        return {}
    styles = {style.get(":styleId", ""): style for style in archive.xml(part).iter("style")}
    return {name: level for name in styles if (level := docx_level_of(name, styles))}


def docx_level_of(name: str, styles: dict[str, Element]) -> int | None:
    for _ in range(10):
        style = styles.get(name)
        if style is None:
            return None
        style_name = docx_value(style.find("name")) or ""
        if heading := DOCX_HEADING.fullmatch(style_name):
            return int(heading[1])
        if style_name.lower() == "title":
            return 1
        outline = docx_value(style.find("pPr/outlineLvl"))
        if outline and int(outline) < MAX_HEADING_LEVEL:
            return int(outline) + 1
        name = docx_value(style.find("basedOn")) or ""
    return None


def docx_value(element: Element | None) -> str | None:
    return None if element is None else element.get(":val")


def docx_blocks(parent: Element, levels: dict[str, int]) -> Iterator[str]:
    """Yield the paragraphs and tables of an element as Markdown.

    They include those within content controls and sections.
    """
    for element in parent:
        if element.tag == "p":
            yield from docx_paragraph(element, levels)
        elif element.tag == "tbl":
            yield f"\n{table(docx_rows(element, levels))}\n"
        elif element.tag not in DOCX_UNREAD:
            yield from docx_blocks(element, levels)


def docx_rows(element: Element, levels: dict[str, int]) -> Iterator[list[str]]:
    for row in outermost(element, "tr"):
        yield [" ".join(docx_blocks(cell, {})) for cell in outermost(row, "tc")]


def docx_paragraph(element: Element, levels: dict[str, int]) -> Iterator[str]:
    text = "".join(docx_texts(element)).strip()
    if text:
        yield docx_markdown(text, element, levels)
    # Text boxes are within a paragraph.
    for box in outermost(element, "txbxContent"):
        yield from docx_blocks(box, levels)


def docx_markdown(text: str, element: Element, levels: dict[str, int]) -> str:
    style = docx_value(element.find("pPr/pStyle")) or ""
    level = levels.get(style)
    if level:
        return f"\n{'#' * min(level, MAX_HEADING_LEVEL)} {' '.join(text.split())}\n"
    if element.find("pPr/numPr") is not None or style.startswith("List"):
        depth = docx_value(element.find("pPr/numPr/ilvl")) or "0"
        return list_item(text, int(depth))
    return f"\n{text}\n"


def docx_texts(element: Element) -> Iterator[str]:
    for child in element:
        if child.tag == "t":
            yield child.text or ""
        elif child.tag == "tab":
            yield "\t"
        elif child.tag in ("br", "cr"):
            yield "\n"
        elif child.tag == "noBreakHyphen":
            yield "-"
        elif child.tag != "txbxContent" and child.tag not in DOCX_UNREAD:
            yield from docx_texts(child)


# Presentations have a section for each slide, with the speaker's notes.

PPTX_TITLES = ("title", "ctrTitle")
# These shapes are the same on every slide.
PPTX_REPEATED_SHAPES = ("dt", "ftr", "hdr", "sldNum", "sldImg")


def read_pptx(path: Path, name: str, limits: ReadLimits) -> Extracted:
    with Archive(path, limits) as archive:
        names = pptx_slides(archive)
        if len(names) > limits.pages:
            raise too_many_slides_error(len(names), limits)
        sections = tuple(
            Section(pptx_slide(archive, part), page=number)
            for number, part in enumerate(names, start=1)
        )
        metadata = properties(archive)
    title = metadata.pop("title", None)
    return Extracted(sections, kind="pptx", title=title, metadata=metadata)


def too_many_slides_error(slides: int, limits: ReadLimits) -> Unreadable:
    return Unreadable(
        "too_many_pages",
        f"The presentation has {slides:,} slides; at most {limits.pages:,} are read. Split it.",
    )


def pptx_slides(archive: Archive) -> list[str]:
    """Return the names of the slides' parts, in the order in which the slides are shown."""
    main = archive.part("officeDocument") or "ppt/presentation.xml"
    related = archive.related(main)
    shown = (entry.get(":id", "") for entry in archive.xml(main).iter("sldId"))
    # A slide is read once, however often it is shown.
    return [*dict.fromkeys(related[entry][1] for entry in shown if entry in related)]


def pptx_slide(archive: Archive, part: str) -> str:
    shapes = archive.xml(part)
    blocks = [*pptx_blocks(shapes), *charts(archive, shapes, part)]
    notes = archive.part("notesSlide", part)
    if notes and archive.take_once(notes) and (texts := [*pptx_blocks(archive.xml(notes))]):
        blocks += ["**Notes**", *texts]
    comments = archive.part("comments", part)
    if comments and archive.take_once(comments):
        texts = [text.text or "" for text in archive.xml(comments).iter("text")]
        blocks += ["**Comments**", *texts] if texts else []
    return "\n\n".join(block for block in blocks if block.strip())


def pptx_blocks(parent: Element) -> Iterator[str]:
    for element in parent:
        if element.tag == "sp":
            yield pptx_shape(element)
        elif element.tag == "tbl":
            rows = outermost(element, "tr")
            yield table(
                [" ".join(pptx_paragraphs(cell)) for cell in outermost(row, "tc")] for row in rows
            )
        elif element.tag != "Fallback":
            yield from pptx_blocks(element)


def pptx_shape(element: Element) -> str:
    placeholder = element.find("nvSpPr/nvPr/ph")
    role = placeholder.get("type", "body") if placeholder is not None else None
    if role in PPTX_REPEATED_SHAPES:
        return ""
    lines = [*pptx_paragraphs(element)]
    if role in PPTX_TITLES:
        return f"# {' '.join(lines)}" if lines else ""
    # The body of a slide is a list, with or without bullets.
    return "\n".join(f"- {line}" for line in lines) if len(lines) > 1 else "".join(lines)


def pptx_paragraphs(element: Element) -> Iterator[str]:
    for paragraph in outermost(element, "p"):
        pieces = (
            " " if piece.tag == "br" else piece.text or ""
            for piece in paragraph.iter()
            if piece.tag in ("t", "br")
        )
        if text := " ".join("".join(pieces).split()):
            yield text


# In OpenDocument, texts, sheets and slides have the same elements.

ODF_UNREAD = frozenset(
    {"tracked-changes", "annotation", "notes-configuration", "note-citation", "forms"}
)
ODF_PARAGRAPHS = ("p", "h")
# A sheet repeats its last cell up to its last possible column.
MAX_REPEATED = 100
MAX_REPEATED_CHARACTERS = 100


def read_odf(path: Path, name: str, limits: ReadLimits) -> Extracted:
    with Archive(path, limits) as archive:
        if "META-INF/manifest.xml" in archive.names:
            manifest = archive.xml("META-INF/manifest.xml")
            if next(manifest.iter("encryption-data"), None) is not None:
                raise locked_error()
        kind = MIMETYPES.get(archive.read("mimetype").strip().removesuffix(b"-template"), "odt")
        body = archive.xml("content.xml").find("body")
        meta = dublin_core(archive.xml("meta.xml")) if "meta.xml" in archive.names else {}
        styles = archive.xml("styles.xml") if "styles.xml" in archive.names else None
    sections = tuple(odf_sections(body, kind, limits)) if body is not None else ()
    if kind == "odt" and sections and body is not None:
        extra = "\n".join(odf_extra_blocks(body, styles))
        sections = (Section(f"{sections[0].text}\n{extra}"),)
    return Extracted(sections, kind=kind, title=meta.pop("title", None), metadata=meta)


def odf_sections(body: Element, kind: str, limits: ReadLimits) -> Iterator[Section]:
    if kind == "odp":
        pages = [*body.iter("page")]
        if len(pages) > limits.pages:
            raise too_many_slides_error(len(pages), limits)
        for number, page in enumerate(pages, start=1):
            yield Section("\n".join(odf_blocks(page)), page=number)
    elif kind == "ods":
        for number, sheet in enumerate(outermost(body, "table"), start=1):
            if text := records(odf_rows(sheet)):
                yield Section(f"# {sheet.get(':name', '')}\n\n{text}", page=number)
    else:
        yield Section("\n".join(odf_blocks(body)))


def odf_extra_blocks(body: Element, styles: Element | None) -> Iterator[str]:
    """Yield the texts of headers, footers and comments, without duplicates."""
    elements = styles.iter() if styles is not None else ()
    headers = [element for element in elements if element.tag.startswith(("header", "footer"))]
    yield from dict.fromkeys(
        block for element in [*headers, *body.iter("annotation")] for block in odf_blocks(element)
    )


def odf_blocks(parent: Element, depth: int = -1) -> Iterator[str]:
    for element in parent:
        if element.tag == "h":
            level = min(int(element.get(":outline-level", "1")), 6)
            yield f"\n{'#' * level} {odf_text(element)}\n"
        elif element.tag == "p":
            yield from odf_paragraph(element, depth)
        elif element.tag == "table":
            yield f"\n{table(odf_rows(element))}\n"
        elif element.tag not in ODF_UNREAD:
            yield from odf_blocks(element, depth + (element.tag == "list"))


def odf_paragraph(element: Element, depth: int) -> Iterator[str]:
    if text := odf_text(element):
        yield list_item(text, depth) if depth >= 0 else f"\n{text}\n"
    for box in outermost(element, "text-box"):
        yield from odf_blocks(box)


def odf_rows(element: Element) -> Iterator[list[str]]:
    for row in outermost(element, "table-row"):
        cells = []
        for cell in row:
            if cell.tag in ("table-cell", "covered-table-cell"):
                text = " ".join(
                    odf_text(part) for part in cell.iter() if part.tag in ODF_PARAGRAPHS
                )
                # Values may be repeated. A long text that is repeated would only fill memory.
                times = odf_repetitions(cell) if len(text) <= MAX_REPEATED_CHARACTERS else 1
                cells += [text] * times
        while cells and not cells[-1]:
            cells.pop()
        # A repeated row is read once.
        yield cells


def odf_repetitions(cell: Element) -> int:
    return min(int(cell.get(":number-columns-repeated", "1")), MAX_REPEATED)


def odf_text(element: Element) -> str:
    return " ".join("".join(odf_text_parts(element)).split(" ")).strip()


def odf_text_parts(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag == "s":
            yield " " * min(int(child.get(":c", "1")), MAX_REPEATED)
        elif child.tag == "tab":
            yield "\t"
        elif child.tag == "line-break":
            yield "\n"
        elif child.tag not in ODF_UNREAD and child.tag != "text-box":
            yield from odf_text_parts(child)
        yield child.tail or ""
