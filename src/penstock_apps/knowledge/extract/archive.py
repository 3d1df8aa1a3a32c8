"""Read the zip archives of office documents and books, and their XML, within limits."""

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
from penstock_apps.knowledge.extract.limits import MEGABYTE, ReadLimits

MAX_XML_DEPTH = 256

Blocks = Generator[bytes, None, None]


class ElementCollector:
    """Builds a tree for each element with a given name, and skips the XML around these elements.

    If `name` is None, it builds the tree of the root element.
    """

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
        parser.StartDoctypeDeclHandler = refuse_doctype
        return parser

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(" ")[2]
        if self.builder is None:
            if self.name not in (None, name):
                return
            self.builder = TreeBuilder()
        self.depth += 1
        if self.depth > MAX_XML_DEPTH:
            raise too_deep_error()
        self.builder.start(name, {local_name(key): value for key, value in attributes.items()})

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


def local_name(name: str) -> str:
    """Return an attribute's name with a colon for its namespace, such as `:id` for `r:id`."""
    _, namespace_end, local = name.rpartition(" ")
    return f":{local}" if namespace_end else local


def too_deep_error() -> Unreadable:
    return Unreadable(
        "broken",
        "The file's tables or other parts are nested too deep. Move the innermost ones out of the "
        "others, or save the text of the file and send that.",
    )


def refuse_doctype(*_: object) -> None:
    raise ValueError("a document type")


def iter_elements(blocks: Blocks, name: str | None) -> Generator[Element, None, None]:
    """Yield the elements with this name one by one, so that a large sheet is never all in memory.

    If `name` is None, yield the root element.
    """
    collector = ElementCollector(name)
    parser = collector.parser()
    # This closes the file of the blocks, even after an error.
    with closing(blocks):
        for block in blocks:
            parser.Parse(block, False)
            yield from collector.done
            collector.done.clear()
    parser.Parse(b"", True)
    yield from collector.done


def outermost(parent: Element, name: str) -> Generator[Element, None, None]:
    """Yield the elements with this name that are not inside another element with this name.

    The caller reads inner elements as parts of the outer one. Yielding them again would double the
    work with each level.
    """
    for element in parent:
        if element.tag == name:
            yield element
        elif element.tag != "Fallback":
            yield from outermost(element, name)


def parse(blocks: Blocks) -> Element:
    with closing(iter_elements(blocks, None)) as elements:
        return next(elements)


ENCRYPTED_FLAG = 0x1
BLOCK_BYTES = 256 * 1024


class Archive:
    """An open zip archive.

    The declared sizes of its files are checked when it is opened, and their real sizes while they
    are read.
    """

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self.limits = limits
        self.bytes_left = limits.inflated
        self.zip = ZipFile(path)
        try:
            self.check_sizes()
        except Unreadable:
            self.zip.close()
            raise
        self.names = frozenset(self.zip.namelist())
        self.relations: dict[str, dict[str, tuple[str, str]]] = {}
        self.references = 0
        self.taken = set[str]()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.zip.close()

    def check_sizes(self) -> None:
        entries = self.zip.infolist()
        if sum(entry.file_size for entry in entries) > self.limits.inflated:
            raise inflates_error()
        if any(self.inflates_too_much(entry) for entry in entries):
            raise inflates_error()
        if any(entry.flag_bits & ENCRYPTED_FLAG for entry in entries):
            raise locked_error()

    def inflates_too_much(self, entry: ZipInfo) -> bool:
        small = entry.file_size <= 10 * MEGABYTE
        return not small and entry.file_size > self.limits.ratio * max(1, entry.compress_size)

    def blocks(self, name: str) -> Blocks:
        with self.zip.open(name) as file:
            while block := file.read(BLOCK_BYTES):
                self.bytes_left -= len(block)
                if self.bytes_left < 0:
                    raise inflates_error()
                yield block

    def read(self, name: str) -> bytes:
        return b"".join(self.blocks(name))

    def xml(self, name: str) -> Element:
        return parse(self.blocks(name))

    def related(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the kind and the name of each part that the part `name` refers to.

        The keys are the ids of the references.
        """
        if name not in self.relations:
            self.relations[name] = dict(self.relations_of(name))
        return self.relations[name]

    def relations_of(self, name: str) -> Iterator[tuple[str, tuple[str, str]]]:
        folder, base = posixpath.split(name)
        relations = posixpath.join(folder, "_rels", f"{base}.rels")
        if relations not in self.names:
            return
        for relation in iter_elements(self.blocks(relations), "Relationship"):
            self.references += 1
            if self.references > self.limits.references:
                raise too_many_references_error(self.limits)
            if relation.get("TargetMode") == "External":
                continue
            target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", "")))
            kind = relation.get("Type", "").rpartition("/")[2]
            yield relation.get("Id", ""), (kind, target.lstrip("/"))

    def take_once(self, name: str) -> bool:
        """Return whether the part exists and this is the first call for it.

        Callers use this to read each part only once.
        """
        if name not in self.names or name in self.taken:
            return False
        self.taken.add(name)
        return True

    def part(self, kind: str, name: str = "") -> str | None:
        """Return the first part of this kind that the part `name` refers to, or None.

        If `name` is empty, return the first part that the document as a whole refers to.
        """
        return next(iter(self.parts(kind, name)), None)

    def parts(self, kind: str, name: str) -> list[str]:
        """Return the parts of this kind that the part `name` refers to, without duplicates."""
        parts = (part for of_kind, part in self.related(name).values() if of_kind == kind)
        return [part for part in dict.fromkeys(parts) if part in self.names]


def properties(archive: Archive) -> dict[str, str]:
    """Return the title, the author and other properties of an office document."""
    name = "docProps/core.xml"
    return dublin_core(archive.xml(name)) if name in archive.names else {}


DUBLIN_CORE_FIELDS = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "description": "description",
    "language": "language",
}


def dublin_core(root: Element) -> dict[str, str]:
    """Return the Dublin Core metadata in an XML tree, under the names that Penstock uses.

    For example, `creator` becomes `author`.
    """
    metadata: dict[str, str] = {}
    for element in root.iter():
        name = DUBLIN_CORE_FIELDS.get(element.tag)
        if name and element.text and element.text.strip():
            metadata.setdefault(name, element.text)
    return metadata


def inflates_error() -> Unreadable:
    return Unreadable(
        "inflates",
        "The file becomes far larger than is allowed once it is decompressed. If that is right, "
        "split it into smaller files.",
    )


def too_many_references_error(limits: ReadLimits) -> Unreadable:
    return Unreadable(
        "too_large",
        f"The file has more than {limits.references:,} links between its parts, the most that are "
        "followed. Split it into smaller files.",
    )


def locked_error() -> Unreadable:
    return Unreadable(
        "encrypted", "The file is locked with a password. Save it without one and send that."
    )
