"""Open a tenant's library for a command, and find the rows that a user means by a name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from penstock import Penstock
from penstock.cli.database import explain_database_errors, require_embedded_server
from penstock.cli.errors import CommandError, NotFound
from penstock.cli.options import DatabaseOptions
from penstock.wording import counted
from penstock_apps.knowledge import Knowledge, errors
from penstock_apps.knowledge.cli.files import absolute_path
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import Document
from penstock_apps.knowledge.store.sources import Source


@asynccontextmanager
async def open_library(
    where: DatabaseOptions, tenant: str
) -> AsyncIterator[tuple[Knowledge, Library]]:
    """Open the database that the options name; yield its Knowledge and the library of a tenant.

    An embedded server is started if it exists, but not created.
    """
    database = where.database()
    if database.url is None:
        require_embedded_server(database)
    app = Penstock()
    where.apply_to(app)
    knowledge = Knowledge(app)
    with explain_database_errors(app.database):
        async with app, knowledge.opened() as runtime:
            yield knowledge, knowledge.of(runtime, tenant)


MAX_NAMES_IN_MESSAGE = 5
# Numbers with more digits cannot be ids.
MAX_ID_DIGITS = 18

T = TypeVar("T", Source, Document)


class NameResolver:
    """Finds a tenant's bases, sources and documents by an id, or by a name that is unique."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._runtime = library.runtime

    async def base(self, name: str) -> Base:
        """Return a base by its name or id, or raise a NotFound that lists some existing bases."""
        name = decode_argument(name)
        try:
            if name.isdecimal() and len(name) > MAX_ID_DIGITS:
                raise errors.NotFound("knowledge base", name)
            return await self._library.base(name)
        except errors.BaseBroken:
            raise
        except errors.NotFound as error:
            existing = [each.name for each in await self._library.bases()]
            raise _not_found(
                "knowledge base", name, existing, "`penstock ingest` makes one"
            ) from error

    async def source(self, name: str, base: Base | None = None) -> Source:
        """Return a source by its id, name, folder or URL.

        Raise NotFound if no source matches, and CommandError if several do.
        """
        name = decode_argument(name)
        if (id := _parse_id(name)) is not None:
            try:
                return _expect_base(await self._library.source(id), base)
            except errors.NotFound:
                pass
        sources = await self._sources(base, [name, str(absolute_path(Path(name)))])
        if not sources:
            existing = [describe(each) for each in await self._sources(base, None)]
            raise _not_found("source", name, existing, "`penstock ingest` makes one")
        return _expect_one("source", name, sources)

    async def document(self, name: str, base: Base | None = None) -> Document:
        """Return a document by its id or path.

        Raise NotFound if no document matches, and CommandError if several do.
        """
        name = decode_argument(name)
        if (id := _parse_id(name)) is not None:
            try:
                return _expect_base(await self._library.document(id), base)
            except errors.NotFound:
                pass
        documents = await self._documents(base, name)
        if not documents:
            existing = [describe(each) for each in await self._documents(base, None)]
            raise _not_found("document", name, existing, "`penstock ingest` takes some in")
        return _expect_one("document", name, documents)

    async def _sources(self, base: Base | None, named: Sequence[str] | None) -> Sequence[Source]:
        within = None if base is None else base.id
        async with self._library.transaction() as on:
            return await self._runtime.sources.list(
                on, self._library.tenant, within, None, MAX_NAMES_IN_MESSAGE + 1, named
            )

    async def _documents(self, base: Base | None, path: str | None) -> Sequence[Document]:
        within = None if base is None else base.id
        async with self._library.transaction() as on:
            return await self._runtime.documents.list(
                on, self._library.tenant, base=within, path=path, limit=MAX_NAMES_IN_MESSAGE + 1
            )


def decode_argument(name: str) -> str:
    """Replace each byte of an argument that is not valid UTF-8 by a question mark."""
    return name.encode("utf-8", "replace").decode()


def describe(what: Source | Document) -> str:
    """Describe a source or document by id and name, such as `3 (handbook)`."""
    name = what.path if isinstance(what, Document) else what.key or what.name
    return f"{what.id} ({name})"


def _parse_id(name: str) -> int | None:
    return int(name) if name.isdecimal() and len(name) <= MAX_ID_DIGITS else None


def _expect_base(row: T, base: Base | None) -> T:
    if base is not None and row.base != base.id:
        raise errors.NotFound("document or source of this base", str(row.id))
    return row


def _expect_one(what: str, name: str, rows: Sequence[T]) -> T:
    if len(rows) > 1:
        number = counted(len(rows), what, MAX_NAMES_IN_MESSAGE + 1)
        raise CommandError(
            f"{name!r} is ambiguous: it matches {number}: "
            f"{_list_some(map(_describe_with_source, rows))}. Pass the id of one.",
            ids=[str(each.id) for each in rows],
        )
    return rows[0]


def _describe_with_source(what: Source | Document) -> str:
    """Describe a document with its source, since another source can have the same path."""
    return f"{what.id} (of source {what.source})" if isinstance(what, Document) else describe(what)


def _not_found(what: str, name: str, existing: Sequence[str], remedy: str) -> NotFound:
    exist = f"Existing ones: {_list_some(existing)}" if existing else f"None exists yet: {remedy}"
    return NotFound(f"There is no {what} {name!r}. {exist}.", name=name)


def _list_some(names: Iterable[str]) -> str:
    """List the first few names, and add "and more" if there are others."""
    known = list(names)
    more = " and more" if len(known) > MAX_NAMES_IN_MESSAGE else ""
    return ", ".join(known[:MAX_NAMES_IN_MESSAGE]) + more
