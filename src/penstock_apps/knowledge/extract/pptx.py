"""Presentations: a section a slide, with what the speaker notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract.archive import Archive, outermost, properties
from penstock_apps.knowledge.extract.chart import charts
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.extract.tables import table
from penstock_apps.knowledge.text import Extracted, Section

TITLES = ("title", "ctrTitle")
# The same on every slide.
AROUND = ("dt", "ftr", "hdr", "sldNum", "sldImg")


def read(path: Path, name: str, limits: Limits) -> Extracted:
    with Archive(path, limits) as archive:
        names = slides(archive)
        if len(names) > limits.pages:
            raise too_many(len(names), limits)
        sections = tuple(
            Section(slide(archive, part), page=number) for number, part in enumerate(names, start=1)
        )
        metadata = properties(archive)
    title = metadata.pop("title", None)
    return Extracted(sections, kind="pptx", title=title, metadata=metadata)


def too_many(slides: int, limits: Limits) -> Unreadable:
    return Unreadable(
        "too_many_pages",
        f"The presentation has {slides:,} slides; at most {limits.pages:,} are read. Split it.",
    )


def slides(archive: Archive) -> list[str]:
    """The slides in the order in which they are shown."""
    main = archive.part("officeDocument") or "ppt/presentation.xml"
    related = archive.related(main)
    shown = (entry.get(":id", "") for entry in archive.xml(main).iter("sldId"))
    # A slide is read once, however often it is shown.
    return [*dict.fromkeys(related[entry][1] for entry in shown if entry in related)]


def slide(archive: Archive, part: str) -> str:
    shapes = archive.xml(part)
    blocks = [*blocks_of(shapes), *charts(archive, shapes, part)]
    notes = archive.part("notesSlide", part)
    said = [*blocks_of(archive.xml(notes))] if notes and archive.first(notes) else []
    if said:
        blocks += ["**Notes**", *said]
    comments = archive.part("comments", part)
    if comments and archive.first(comments):
        texts = [text.text or "" for text in archive.xml(comments).iter("text")]
        blocks += ["**Comments**", *texts] if texts else []
    return "\n\n".join(block for block in blocks if block.strip())


def blocks_of(parent: Element) -> Iterator[str]:
    for element in parent:
        if element.tag == "sp":
            yield shape(element)
        elif element.tag == "tbl":
            rows = outermost(element, "tr")
            yield table(
                [" ".join(paragraphs(cell)) for cell in outermost(row, "tc")] for row in rows
            )
        elif element.tag != "Fallback":
            yield from blocks_of(element)


def shape(element: Element) -> str:
    place = element.find("nvSpPr/nvPr/ph")
    role = place.get("type", "body") if place is not None else None
    if role in AROUND:
        return ""
    said = [*paragraphs(element)]
    if role in TITLES:
        return f"# {' '.join(said)}" if said else ""
    # The body of a slide is a list, whatever its bullets look like.
    return "\n".join(f"- {line}" for line in said) if len(said) > 1 else "".join(said)


def paragraphs(element: Element) -> Iterator[str]:
    for paragraph in outermost(element, "p"):
        pieces = (
            " " if piece.tag == "br" else piece.text or ""
            for piece in paragraph.iter()
            if piece.tag in ("t", "br")
        )
        if text := " ".join("".join(pieces).split()):
            yield text
