"""Books: a section a chapter, in the order in which they are read."""

from __future__ import annotations

import posixpath
from pathlib import Path
from urllib.parse import unquote

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract.archive import Archive, told
from penstock_apps.knowledge.extract.detect import declared_in, decode
from penstock_apps.knowledge.extract.html import page
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted, Section

PAGES = ("application/xhtml+xml", "text/html")


def read(path: Path, name: str, limits: Limits) -> Extracted:
    with Archive(path, limits) as archive:
        container = archive.xml("META-INF/container.xml")
        root = next(container.iter("rootfile")).get("full-path", "")
        package = archive.xml(root)
        folder = posixpath.dirname(root)
        parts = {
            item.get("id"): posixpath.normpath(
                posixpath.join(folder, unquote(item.get("href", "")))
            )
            for item in package.iter("item")
            if item.get("media-type") in PAGES and item.get("properties") != "nav"
        }
        order = [parts.get(entry.get("idref")) for entry in package.iter("itemref")]
        # A chapter is read once, however often a book leads to it.
        chapters = [part for part in dict.fromkeys(order) if part in archive.names]
        if not {*chapters}.isdisjoint(protected(archive)):
            raise Unreadable(
                "encrypted",
                "The book is protected against copying and can only be read in its shop's program.",
            )
        sections = tuple(Section(chapter(archive.read(part))) for part in chapters if part)
    metadata = told(package)
    return Extracted(sections, kind="epub", title=metadata.pop("title", None), metadata=metadata)


def chapter(data: bytes) -> str:
    return page(decode(data, declared_in(data)))[0]


def protected(archive: Archive) -> set[str]:
    """The files that are encrypted; fonts often are, and do not matter."""
    name = "META-INF/encryption.xml"
    if name not in archive.names:
        return set()
    references = archive.xml(name).iter("CipherReference")
    return {unquote(reference.get("URI", "")) for reference in references}
