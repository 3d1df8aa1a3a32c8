"""OpenDocument: texts, sheets and slides have the same elements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from penstock_apps.knowledge.extract.archive import Archive, locked, outermost, told
from penstock_apps.knowledge.extract.detect import MIMETYPES
from penstock_apps.knowledge.extract.items import item
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.extract.pptx import too_many
from penstock_apps.knowledge.extract.tables import records, table
from penstock_apps.knowledge.text import Extracted, Section

UNREAD = frozenset(
    {"tracked-changes", "annotation", "notes-configuration", "note-citation", "forms"}
)
PARAGRAPHS = ("p", "h")
# A sheet repeats its last cell to the end of all columns.
MOST_REPEATED = 100
LONGEST_REPEATED = 100


def read(path: Path, name: str, limits: Limits) -> Extracted:
    with Archive(path, limits) as archive:
        if "META-INF/manifest.xml" in archive.names:
            manifest = archive.xml("META-INF/manifest.xml")
            if next(manifest.iter("encryption-data"), None) is not None:
                raise locked()
        kind = MIMETYPES.get(archive.read("mimetype").strip().removesuffix(b"-template"), "odt")
        body = archive.xml("content.xml").find("body")
        meta = told(archive.xml("meta.xml")) if "meta.xml" in archive.names else {}
        around = archive.xml("styles.xml") if "styles.xml" in archive.names else None
    sections = tuple(sections_of(body, kind, limits)) if body is not None else ()
    if kind == "odt" and sections and body is not None:
        beside = "\n".join(beside_of(body, around))
        sections = (Section(f"{sections[0].text}\n{beside}"),)
    return Extracted(sections, kind=kind, title=meta.pop("title", None), metadata=meta)


def sections_of(body: Element, kind: str, limits: Limits) -> Iterator[Section]:
    if kind == "odp":
        pages = [*body.iter("page")]
        if len(pages) > limits.pages:
            raise too_many(len(pages), limits)
        for number, page in enumerate(pages, start=1):
            yield Section("\n".join(blocks_of(page)), page=number)
    elif kind == "ods":
        for number, sheet in enumerate(outermost(body, "table"), start=1):
            if said := records(rows(sheet)):
                yield Section(f"# {sheet.get(':name', '')}\n\n{said}", page=number)
    else:
        yield Section("\n".join(blocks_of(body)))


def beside_of(body: Element, styles: Element | None) -> Iterator[str]:
    """Headers and footers, and what was noted beside the text; each once."""
    pages = styles.iter() if styles is not None else ()
    found = [page for page in pages if page.tag.startswith(("header", "footer"))]
    yield from dict.fromkeys(
        block for element in [*found, *body.iter("annotation")] for block in blocks_of(element)
    )


def blocks_of(parent: Element, depth: int = -1) -> Iterator[str]:
    for element in parent:
        if element.tag == "h":
            level = min(int(element.get(":outline-level", "1")), 6)
            yield f"\n{'#' * level} {text(element)}\n"
        elif element.tag == "p":
            yield from paragraph(element, depth)
        elif element.tag == "table":
            yield f"\n{table(rows(element))}\n"
        elif element.tag not in UNREAD:
            yield from blocks_of(element, depth + (element.tag == "list"))


def paragraph(element: Element, depth: int) -> Iterator[str]:
    if said := text(element):
        yield item(said, depth) if depth >= 0 else f"\n{said}\n"
    for box in outermost(element, "text-box"):
        yield from blocks_of(box)


def rows(element: Element) -> Iterator[list[str]]:
    for row in outermost(element, "table-row"):
        cells = []
        for cell in row:
            if cell.tag in ("table-cell", "covered-table-cell"):
                said = " ".join(text(part) for part in cell.iter() if part.tag in PARAGRAPHS)
                # Values may repeat; a long text that does is there to fill memory.
                times = repeated(cell) if len(said) <= LONGEST_REPEATED else 1
                cells += [said] * times
        while cells and not cells[-1]:
            cells.pop()
        # The same row again says nothing new.
        yield cells


def repeated(cell: Element) -> int:
    return min(int(cell.get(":number-columns-repeated", "1")), MOST_REPEATED)


def text(element: Element) -> str:
    return " ".join("".join(pieces(element)).split(" ")).strip()


def pieces(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag == "s":
            yield " " * min(int(child.get(":c", "1")), MOST_REPEATED)
        elif child.tag == "tab":
            yield "\t"
        elif child.tag == "line-break":
            yield "\n"
        elif child.tag not in UNREAD and child.tag != "text-box":
            yield from pieces(child)
        yield child.tail or ""
