"""Charts of office documents: their titles, and each series with its values."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from penstock_apps.knowledge.extract.archive import Archive


def charts(archive: Archive, parent: Element, part: str) -> Iterator[str]:
    """The texts of the charts and diagrams in a slide or a document, each once."""
    wanted = [
        identifier
        for element in parent.iter()
        if element.tag in ("chart", "relIds")
        and (identifier := element.get(":id") or element.get(":dm"))
    ]
    related = archive.related(part) if wanted else {}
    for identifier in dict.fromkeys(wanted):
        kind, name = related.get(identifier, ("", ""))
        if kind == "chart" and archive.first(name):
            yield from chart(archive.xml(name))
        elif kind == "diagramData" and archive.first(name):
            yield "\n".join(f"- {point}" for point in points(archive.xml(name)))


def chart(root: Element) -> Iterator[str]:
    for title in root.iter("title"):
        if said := words(title):
            yield said
    for series in root.iter("ser"):
        labels = cached(series.find("cat"), series.find("xVal"))
        values = cached(series.find("val"), series.find("yVal"))
        pairs = (f"{labels.get(at, '')} {value}".strip() for at, value in values.items())
        if said := "; ".join(pairs):
            name = words(series.find("tx"))
            yield f"{name}: {said}" if name else said


def words(element: Element | None) -> str:
    """A text that is written there, or that was last copied from a sheet."""
    if element is None:
        return ""
    pieces = (piece.text or "" for piece in element.iter() if piece.tag in ("t", "v"))
    return " ".join(" ".join(pieces).split())


def cached(*elements: Element | None) -> dict[str, str]:
    """What was last copied from a sheet, by its place; of labels in levels all of them."""
    found: dict[str, list[str]] = {}
    for element in elements:
        for point in element.iter("pt") if element is not None else ():
            found.setdefault(point.get("idx", ""), []).append(point.findtext("v") or "")
    return {at: " ".join(reversed(said)) for at, said in found.items()}


def points(diagram: Element) -> Iterator[str]:
    for point in diagram.iter("pt"):
        if said := words(point.find("t")):
            yield said
