"""XML without what makes it dangerous: a document type, and so entities, is refused.

Names stand without their namespace: `p`, and `:val` for an attribute that has one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ParserCreate, XMLParserType

from penstock_apps.knowledge.errors import Unreadable

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
