"""The zip that an office document is, and its XML: nothing in it may grow beyond its limits."""

from __future__ import annotations

import posixpath
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ParserCreate, XMLParserType
from zipfile import ZipFile, ZipInfo

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract.limits import MEGABYTE, Limits

DEEPEST = 256

Blocks = Generator[bytes, None, None]


class Trees:
    """Builds the elements of one name, each whole, while the XML around them passes by."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.builder: TreeBuilder | None = None
        self.depth = 0
        self.done: list[Element] = []

    def parser(self) -> XMLParserType:
        parser = ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.data
        parser.StartDoctypeDeclHandler = refused
        return parser

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(" ")[2]
        if self.builder is None:
            if self.name not in (None, name):
                return
            self.builder = TreeBuilder()
        self.depth += 1
        if self.depth > DEEPEST:
            raise too_deep()
        self.builder.start(name, {bare(key): value for key, value in attributes.items()})

    def end(self, name: str) -> None:
        if self.builder is None:
            return
        self.builder.end(name.rpartition(" ")[2])
        self.depth -= 1
        if self.depth == 0:
            self.done.append(self.builder.close())
            self.builder = None

    def data(self, text: str) -> None:
        if self.builder is not None:
            self.builder.data(text)


def bare(name: str) -> str:
    _, found, local = name.rpartition(" ")
    return f":{local}" if found else local


def too_deep() -> Unreadable:
    return Unreadable(
        "broken",
        "The file's tables or other parts stand too deep in each other. Take the innermost out of "
        "the others, or save the text of the file and send that.",
    )


def refused(*_: object) -> None:
    raise ValueError("a document type")


def each(blocks: Blocks, name: str | None) -> Generator[Element, None, None]:
    """Each element of that name, one after the other: a sheet is never whole in memory."""
    trees = Trees(name)
    parser = trees.parser()
    # Whatever goes wrong, the file that the blocks come from is closed.
    with closing(blocks):
        for block in blocks:
            parser.Parse(block, False)
            yield from trees.done
            trees.done.clear()
    parser.Parse(b"", True)
    yield from trees.done


def outermost(parent: Element, name: str) -> Generator[Element, None, None]:
    """The elements of that name that stand within no other of it: what is in one is read with it.

    Read for itself as well, it would be read twice as often with each level.
    """
    for element in parent:
        if element.tag == name:
            yield element
        elif element.tag != "Fallback":
            yield from outermost(element, name)


def parse(blocks: Blocks) -> Element:
    with closing(each(blocks, None)) as found:
        return next(found)


ENCRYPTED_FLAG = 0x1
BLOCK = 256 * 1024


class Archive:
    """An opened zip. What it claims is checked at once, what it really holds while it is read."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.limits = limits
        self.left = limits.inflated
        self.zip = ZipFile(path)
        try:
            self.check()
        except Unreadable:
            self.zip.close()
            raise
        self.names = frozenset(self.zip.namelist())
        self.relations: dict[str, dict[str, tuple[str, str]]] = {}
        self.references = 0
        self.told = set[str]()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.zip.close()

    def check(self) -> None:
        entries = self.zip.infolist()
        if sum(entry.file_size for entry in entries) > self.limits.inflated:
            raise inflates()
        if any(self.swollen(entry) for entry in entries):
            raise inflates()
        if any(entry.flag_bits & ENCRYPTED_FLAG for entry in entries):
            raise locked()

    def swollen(self, entry: ZipInfo) -> bool:
        small = entry.file_size <= 10 * MEGABYTE
        return not small and entry.file_size > self.limits.ratio * max(1, entry.compress_size)

    def blocks(self, name: str) -> Blocks:
        with self.zip.open(name) as file:
            while block := file.read(BLOCK):
                self.left -= len(block)
                if self.left < 0:
                    raise inflates()
                yield block

    def read(self, name: str) -> bytes:
        return b"".join(self.blocks(name))

    def xml(self, name: str) -> Element:
        return parse(self.blocks(name))

    def related(self, name: str) -> dict[str, tuple[str, str]]:
        """By id: the kind and the name of each part that a part of an office document needs."""
        if name not in self.relations:
            self.relations[name] = dict(self.relations_of(name))
        return self.relations[name]

    def relations_of(self, name: str) -> Iterator[tuple[str, tuple[str, str]]]:
        folder, base = posixpath.split(name)
        relations = posixpath.join(folder, "_rels", f"{base}.rels")
        if relations not in self.names:
            return
        for relation in each(self.blocks(relations), "Relationship"):
            self.references += 1
            if self.references > self.limits.references:
                raise too_many_references(self.limits)
            if relation.get("TargetMode") == "External":
                continue
            target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", "")))
            kind = relation.get("Type", "").rpartition("/")[2]
            yield relation.get("Id", ""), (kind, target.lstrip("/"))

    def first(self, name: str) -> bool:
        """Whether a part exists and was not read yet: each is read only once."""
        if name not in self.names or name in self.told:
            return False
        self.told.add(name)
        return True

    def part(self, kind: str, name: str = "") -> str | None:
        """The first part of that kind that `name`, or the whole document, needs."""
        return next(iter(self.parts(kind, name)), None)

    def parts(self, kind: str, name: str) -> list[str]:
        """All parts of that kind that `name` needs, each once."""
        parts = (part for of, part in self.related(name).values() if of == kind)
        return [part for part in dict.fromkeys(parts) if part in self.names]


def properties(archive: Archive) -> dict[str, str]:
    """Title, author and the like, as office programs write them."""
    name = "docProps/core.xml"
    return told(archive.xml(name)) if name in archive.names else {}


TOLD = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "description": "description",
    "language": "language",
}


def told(root: Element) -> dict[str, str]:
    """What Dublin Core says of a document, in our words."""
    found: dict[str, str] = {}
    for element in root.iter():
        name = TOLD.get(element.tag)
        if name and element.text and element.text.strip():
            found.setdefault(name, element.text)
    return found


def inflates() -> Unreadable:
    return Unreadable(
        "inflates",
        "Unpacked, the file is far larger than what is read here. If it is what it should be, "
        "split it into smaller files.",
    )


def too_many_references(limits: Limits) -> Unreadable:
    return Unreadable(
        "too_large",
        f"The file has more than {limits.references:,} links between its parts, the most that are "
        "followed. Split it into smaller files.",
    )


def locked() -> Unreadable:
    return Unreadable(
        "encrypted", "The file is locked with a password. Save it without one and send that."
    )
