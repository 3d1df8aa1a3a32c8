"""Word documents: paragraphs, headings, lists and tables, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from penstock_apps.knowledge.extract.archive import Archive, outermost, properties
from penstock_apps.knowledge.extract.chart import charts
from penstock_apps.knowledge.extract.items import item
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.extract.tables import table
from penstock_apps.knowledge.text import Extracted, Section

HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
# What was deleted, what stands twice, and codes of fields.
UNREAD = frozenset({"del", "moveFrom", "Fallback", "instrText", "delText", "pPr", "rPr", "fldChar"})
DEEPEST = 6
# What stands beside the text, after it.
BESIDE = ("footnotes", "endnotes", "header", "footer", "comments")


def read(path: Path, name: str, limits: Limits) -> Extracted:
    with Archive(path, limits) as archive:
        main = archive.part("officeDocument") or "word/document.xml"
        levels = headings(archive, main)
        body = archive.xml(main)
        blocks = [*blocks_of(body, levels), *charts(archive, body, main)]
        for kind in BESIDE:
            # Each kind of page may have its own header, and most say the same.
            blocks += dict.fromkeys(
                block
                for part in archive.parts(kind, main)
                for block in blocks_of(archive.xml(part), levels)
            )
        metadata = properties(archive)
    title = metadata.pop("title", None)
    return Extracted((Section("\n".join(blocks)),), kind="docx", title=title, metadata=metadata)


def headings(archive: Archive, main: str) -> dict[str, int]:
    """By id of a style: how deep the heading is that it makes, also by the style it is based on."""
    part = archive.part("styles", main)
    if part is None:
        return {}
    styles = {style.get(":styleId", ""): style for style in archive.xml(part).iter("style")}
    return {name: level for name in styles if (level := level_of(name, styles))}


def level_of(name: str, styles: dict[str, Element]) -> int | None:
    for _ in range(10):
        style = styles.get(name)
        if style is None:
            return None
        called = value(style.find("name")) or ""
        if found := HEADING.fullmatch(called):
            return int(found[1])
        if called.lower() == "title":
            return 1
        outline = value(style.find("pPr/outlineLvl"))
        if outline and int(outline) < DEEPEST:
            return int(outline) + 1
        name = value(style.find("basedOn")) or ""
    return None


def value(element: Element | None) -> str | None:
    return None if element is None else element.get(":val")


def blocks_of(parent: Element, levels: dict[str, int]) -> Iterator[str]:
    """Paragraphs and tables, wherever a content control or a section hides them."""
    for element in parent:
        if element.tag == "p":
            yield from paragraph(element, levels)
        elif element.tag == "tbl":
            yield f"\n{table(rows(element, levels))}\n"
        elif element.tag not in UNREAD:
            yield from blocks_of(element, levels)


def rows(element: Element, levels: dict[str, int]) -> Iterator[list[str]]:
    for row in outermost(element, "tr"):
        yield [" ".join(blocks_of(cell, {})) for cell in outermost(row, "tc")]


def paragraph(element: Element, levels: dict[str, int]) -> Iterator[str]:
    text = "".join(texts(element)).strip()
    if text:
        yield styled(text, element, levels)
    # The text of boxes, which stand within a paragraph.
    for box in outermost(element, "txbxContent"):
        yield from blocks_of(box, levels)


def styled(text: str, element: Element, levels: dict[str, int]) -> str:
    style = value(element.find("pPr/pStyle")) or ""
    level = levels.get(style)
    if level:
        return f"\n{'#' * min(level, DEEPEST)} {' '.join(text.split())}\n"
    if element.find("pPr/numPr") is not None or style.startswith("List"):
        depth = value(element.find("pPr/numPr/ilvl")) or "0"
        return item(text, int(depth))
    return f"\n{text}\n"


def texts(element: Element) -> Iterator[str]:
    for child in element:
        if child.tag == "t":
            yield child.text or ""
        elif child.tag == "tab":
            yield "\t"
        elif child.tag in ("br", "cr"):
            yield "\n"
        elif child.tag == "noBreakHyphen":
            yield "-"
        elif child.tag != "txbxContent" and child.tag not in UNREAD:
            yield from texts(child)
