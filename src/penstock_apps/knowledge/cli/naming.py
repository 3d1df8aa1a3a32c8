"""What people call bases, sources and documents, and what there is if a name means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from penstock.cli.errors import CommandError, NotFound
from penstock.wording import counted
from penstock_apps.knowledge import errors
from penstock_apps.knowledge.cli.files import place_of
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import Document
from penstock_apps.knowledge.store.sources import Source

# How many are named in a message.
NAMED = 5
# A longer number is no id.
DIGITS = 18

T = TypeVar("T", Source, Document)


class Naming:
    """Finds what a tenant's names mean: an id, or a name that is the only one of its kind."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._runtime = library.runtime

    async def base(self, name: str) -> Base:
        """A base by its name or id."""
        name = readable(name)
        try:
            if name.isdecimal() and len(name) > DIGITS:
                raise errors.NotFound("knowledge base", name)
            return await self._library.base(name)
        except errors.BaseBroken:
            raise
        except errors.NotFound as error:
            there = [each.name for each in await self._library.bases()]
            raise _missing("knowledge base", name, there, "`penstock ingest` makes one") from error

    async def source(self, name: str, base: Base | None = None) -> Source:
        """A source by its id, its name, or the folder or URL that it is of."""
        name = readable(name)
        if (id := _id(name)) is not None:
            try:
                return _within(await self._library.source(id), base)
            except errors.NotFound:
                pass
        found = await self._sources(base, [name, str(place_of(Path(name)))])
        if not found:
            there = [described(each) for each in await self._sources(base, None)]
            raise _missing("source", name, there, "`penstock ingest` makes one")
        return _only("source", name, found)

    async def document(self, name: str, base: Base | None = None) -> Document:
        """A document by its id, or its path."""
        name = readable(name)
        if (id := _id(name)) is not None:
            try:
                return _within(await self._library.document(id), base)
            except errors.NotFound:
                pass
        found = await self._documents(base, name)
        if not found:
            there = [described(each) for each in await self._documents(base, None)]
            raise _missing("document", name, there, "`penstock ingest` takes some in")
        return _only("document", name, found)

    async def _sources(self, base: Base | None, named: Sequence[str] | None) -> Sequence[Source]:
        within = None if base is None else base.id
        async with self._library.transaction() as on:
            return await self._runtime.sources.list(
                on, self._library.tenant, within, None, NAMED + 1, named
            )

    async def _documents(self, base: Base | None, path: str | None) -> Sequence[Document]:
        within = None if base is None else base.id
        async with self._library.transaction() as on:
            return await self._runtime.documents.list(
                on, self._library.tenant, base=within, path=path, limit=NAMED + 1
            )


def readable(name: str) -> str:
    """What is typed in another encoding, as far as it can be read."""
    return name.encode("utf-8", "replace").decode()


def described(what: Source | Document) -> str:
    """`3 (handbook)`: by its id, and what people call it."""
    name = what.path if isinstance(what, Document) else what.key or what.name
    return f"{what.id} ({name})"


def _id(name: str) -> int | None:
    return int(name) if name.isdecimal() and len(name) <= DIGITS else None


def _within(found: T, base: Base | None) -> T:
    if base is not None and found.base != base.id:
        raise errors.NotFound("document or source of this base", str(found.id))
    return found


def _only(what: str, name: str, found: Sequence[T]) -> T:
    if len(found) > 1:
        raise CommandError(
            f"{name!r} is {counted(len(found), what, NAMED + 1)}: {_some(map(_placed, found))}. "
            "Name one by its id.",
            ids=[str(each.id) for each in found],
        )
    return found[0]


def _placed(what: Source | Document) -> str:
    """Where it is, for those that have the same name."""
    return f"{what.id} (of source {what.source})" if isinstance(what, Document) else described(what)


def _missing(what: str, name: str, there: Sequence[str], remedy: str) -> NotFound:
    exist = f"there are: {_some(there)}" if there else f"there is none yet: {remedy}"
    return NotFound(f"There is no {what} {name!r}; {exist}.", name=name)


def _some(names: Iterable[str]) -> str:
    """The first few; that there are more was seen, and not how many."""
    known = list(names)
    more = " and more" if len(known) > NAMED else ""
    return ", ".join(known[:NAMED]) + more
