"""Implement `penstock knowledge bases`, `sources`, `documents` and `delete`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.options import DatabaseOptions, confirm
from penstock.cli.output import Output, say, terminal
from penstock.wording import counted
from penstock_apps.knowledge.cli.names import NameResolver, describe, open_library
from penstock_apps.knowledge.cli.options import PageOptions
from penstock_apps.knowledge.errors import BaseBroken
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.counts import BaseContents, Counts, CountSnapshots
from penstock_apps.knowledge.store.documents import Document
from penstock_apps.knowledge.store.sources import Source

SOURCES_PER_QUERY = 1000


class ListedBase(NamedTuple):
    """A base and its counts."""

    base: Base
    stock: BaseContents


class ListedSource(NamedTuple):
    """A source and the states of its documents."""

    source: Source
    counts: Counts


class Catalog:
    """Lists the bases, sources and documents of a tenant."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._runtime = library.runtime

    async def bases(self, only: Base | None = None) -> list[ListedBase]:
        """List bases with their counts, sorted by name: all bases, or just `only` if given."""
        bases = await self._library.bases() if only is None else [only]
        async with self._library.transaction() as on:
            stocks = await self._runtime.counters.count_by_base(on, self._library.tenant)
        return [ListedBase(each, stocks.get(each.id, BaseContents())) for each in bases]

    async def sources(
        self, base: Base | None, state: str | None, after: int | None, limit: int
    ) -> list[ListedSource]:
        """List sources with their counts, newest first, of one base or of all.

        If `state` is given, list only sources in that state.
        """
        listed: list[ListedSource] = []
        size = SOURCES_PER_QUERY if state else limit
        while len(listed) < limit:
            page = await self._list_page(base, after, size)
            listed += [each for each in page if state in (None, each.counts.state)]
            if len(page) < size:
                break
            after = page[-1].source.id
        return listed[:limit]

    async def _list_page(
        self, base: Base | None, after: int | None, limit: int
    ) -> list[ListedSource]:
        tenant = self._library.tenant
        async with self._library.transaction() as on:
            within = None if base is None else base.id
            sources = await self._runtime.sources.list(on, tenant, within, after, limit)
            snapshots = CountSnapshots(self._runtime.tables)
            states = await snapshots.sources(on, tenant, [each.id for each in sources])
        counts = {each.id: each.counts for each in states}
        return [ListedSource(each, counts.get(each.id, Counts())) for each in sources]

    async def documents(
        self,
        base: Base | None,
        source: Source | None,
        state: str | None,
        after: int | None,
        limit: int,
    ) -> list[Document]:
        async with self._library.transaction() as on:
            return await self._runtime.documents.list(
                on,
                self._library.tenant,
                base=None if base is None else base.id,
                source=None if source is None else source.id,
                state=state,
                after=after,
                limit=limit,
            )


STATE_COLOURS = {
    "pending": "cyan",
    "processing": "yellow",
    "completed": "green",
    "partial": "bold yellow",
    "skipped": tables.FAINT,
    "failed": "bold red",
    "cancelled": tables.FAINT,
}


def bases_table(bases: Sequence[ListedBase], width: int) -> RenderableType:
    """Render bases with the states of their documents."""
    if not bases:
        return tables.empty_text("There are no knowledge bases. `penstock ingest` makes one.")
    sheet = tables.TableBuilder(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("documents", align_right=True)
    sheet.column("chunks", align_right=True)
    sheet.column("to come", align_right=True)
    sheet.column(
        "skipped", align_right=True, needed=any(each.stock.counts.skipped for each in bases)
    )
    sheet.column("failed", align_right=True)
    sheet.column(
        "cancelled", align_right=True, needed=any(each.stock.counts.cancelled for each in bases)
    )
    sheet.column("model", wider_than=80)
    sheet.column("name", elastic=True)
    for base, stock in bases:
        counts = stock.counts
        sheet.row(
            str(base.id),
            _state("building" if base.next_edition is not None else counts.state),
            f"{counts.total:,}",
            f"{stock.chunks:,}",
            _number(counts.pending + counts.processing, STATE_COLOURS["processing"]),
            _number(counts.skipped),
            _number(counts.failed, STATE_COLOURS["failed"]),
            _number(counts.cancelled),
            base.edition.recipe.embedding.provider,
            Text(base.name),
        )
    return sheet.table


def sources_table(
    sources: Sequence[ListedSource], names: Mapping[int, str], width: int
) -> RenderableType:
    """Render sources with the states of their documents."""
    if not sources:
        return tables.empty_text("There are no such sources.")
    sheet = tables.TableBuilder(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("completed", align_right=True)
    sheet.column("to come", align_right=True, wider_than=80)
    sheet.column("skipped", align_right=True, needed=any(each.counts.skipped for each in sources))
    sheet.column("failed", align_right=True)
    sheet.column(
        "cancelled", align_right=True, needed=any(each.counts.cancelled for each in sources)
    )
    sheet.column("batch", align_right=True)
    sheet.column("base", max_width=20)
    sheet.column("kind", wider_than=100)
    sheet.column("name", elastic=True)
    sheet.column("of", wider_than=120, elastic=True)
    for source, counts in sources:
        sheet.row(
            str(source.id),
            _state(counts.state),
            f"{counts.completed:,}/{counts.total:,}",
            _number(counts.pending + counts.processing, STATE_COLOURS["processing"]),
            _number(counts.skipped),
            _number(counts.failed, STATE_COLOURS["failed"]),
            _number(counts.cancelled),
            source.batch or "",
            Text(names.get(source.base, str(source.base))),
            source.kind,
            Text(source.name),
            Text(source.key or ""),
        )
    return sheet.table


def documents_table(documents: Sequence[Document], width: int) -> RenderableType:
    """Render documents with their states, and why some were not ingested."""
    if not documents:
        return tables.empty_text("There are no such documents.")
    sheet = tables.TableBuilder(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("chunks", align_right=True)
    sheet.column("source", align_right=True)
    are_explained = any(each.reason or each.error for each in documents)
    sheet.column("path", max_width=40 if are_explained else 120, elastic=not are_explained)
    sheet.column("why", elastic=True, needed=are_explained)
    for each in documents:
        why = ": ".join(filter(None, (each.reason, each.error)))
        sheet.row(
            str(each.id),
            _state(each.state),
            _number(each.chunks),
            str(each.source),
            Text(each.path),
            Text(" ".join(why.split())),
        )
    return sheet.table


def _state(name: str) -> Text:
    return Text(name, STATE_COLOURS.get(name, "magenta"))


def _number(number: int, colour: str = "") -> Text:
    return Text(f"{number:,}", colour if number else tables.FAINT)


# In the JSON of a document, ids are strings, as everywhere.
ID_FIELDS = ("id", "base", "source")
HIDDEN_FIELDS = ("tenant", "object", "published")


async def show_bases(tenant: str, base: str | None, where: DatabaseOptions, output: Output) -> None:
    async with open_library(where, tenant) as (_, library):
        bases = await Catalog(library).bases(await _find_base(library, base))
    document = {"bases": [_base_document(each) for each in bases]}
    output.show(document, lambda: bases_table(bases, terminal().width))


async def show_sources(
    tenant: str,
    base: str | None,
    state: str | None,
    page: PageOptions,
    where: DatabaseOptions,
    output: Output,
) -> None:
    async with open_library(where, tenant) as (_, library):
        within = await _find_base(library, base)
        sources = await Catalog(library).sources(within, state, page.start, page.limit)
        names = {each.id: each.name for each in await library.bases()}
    after = str(sources[-1].source.id) if len(sources) == page.limit else None
    document = {"sources": [_source_document(each) for each in sources], "after": after}
    output.show(document, lambda: sources_table(sources, names, terminal().width))
    _mention_next_page(after, output)


async def show_documents(
    tenant: str,
    base: str | None,
    source: str | None,
    state: str | None,
    page: PageOptions,
    where: DatabaseOptions,
    output: Output,
) -> None:
    async with open_library(where, tenant) as (_, library):
        within = await _find_base(library, base)
        source_to_list = (
            None if source is None else await NameResolver(library).source(source, within)
        )
        documents = await Catalog(library).documents(
            within, source_to_list, state, page.start, page.limit
        )
    after = str(documents[-1].id) if len(documents) == page.limit else None
    document = {"documents": [_document(each) for each in documents], "after": after}
    output.show(document, lambda: documents_table(documents, terminal().width))
    _mention_next_page(after, output)


async def _find_base(library: Library, name: str | None) -> Base | None:
    return None if name is None else await NameResolver(library).base(name)


def _mention_next_page(after: str | None, output: Output) -> None:
    if after is not None and not output.as_json:
        say(f"There may be more: --after {after}.")


def _base_document(listed: ListedBase) -> dict[str, Any]:
    base, stock = listed
    return {
        "id": str(base.id),
        "name": base.name,
        "language": base.language,
        "embedding": base.edition.recipe.embedding,
        "building": base.next_batch,
        "created_at": base.created_at,
        "documents": stock.counts.total,
        "chunks": stock.chunks,
        **_counts_document(stock.counts),
    }


def _source_document(listed: ListedSource) -> dict[str, Any]:
    source, counts = listed
    return {
        "id": str(source.id),
        "base": str(source.base),
        "kind": source.kind,
        "name": source.name,
        "key": source.key,
        "batch": source.batch,
        "created_at": source.created_at,
        "ended_at": source.ended_at,
        "documents": counts.total,
        **_counts_document(counts),
    }


def _counts_document(counts: Counts) -> Mapping[str, Any]:
    states = ("pending", "processing", "completed", "skipped", "failed", "cancelled")
    return {"state": counts.state, **{name: getattr(counts, name) for name in states}}


def _document(document: Document) -> dict[str, Any]:
    values = msgspec.structs.asdict(document)
    shown = {name: value for name, value in values.items() if name not in HIDDEN_FIELDS}
    return shown | {name: str(values[name]) for name in ID_FIELDS}


DeletableKind = Literal["document", "source", "base"]


class Deletion(Struct, frozen=True):
    """A document, source or base to delete, with the number of its documents."""

    kind: DeletableKind
    id: int
    name: str
    label: str
    documents: int

    def __str__(self) -> str:
        if self.kind == "document":
            return f"The document {self.label}"
        noun = "knowledge base" if self.kind == "base" else "source"
        return f"The {noun} {self.label}, with {counted(self.documents, 'document')},"

    def as_document(self) -> dict[str, Any]:
        """Return the JSON that the command prints."""
        return {
            "deleted": str(self.id),
            "what": self.kind,
            "name": self.name,
            "documents": self.documents,
        }


def delete_named(
    what: DeletableKind,
    name: str,
    tenant: str,
    base: str | None,
    where: DatabaseOptions,
    output: Output,
    *,
    yes: bool,
) -> None:
    """Delete the document, source or base of this name. Ask the user first, unless `yes` is set."""
    deletion = asyncio.run(_find_target(what, name, tenant, base, where))
    if not yes:
        confirm(f"{deletion} will be deleted.")
    asyncio.run(_delete(deletion, tenant, where))
    output.show(
        deletion.as_document(),
        lambda: (
            f"{deletion} is deleted, and searches no longer find it. A running worker, or the "
            "next `penstock ingest`, removes its data."
        ),
    )


async def _find_target(
    what: DeletableKind, name: str, tenant: str, base: str | None, where: DatabaseOptions
) -> Deletion:
    async with open_library(where, tenant) as (_, library):
        names = NameResolver(library)
        within = None if base is None else await names.base(base)
        if what == "base":
            target = await _find_base_even_broken(names, name)
            number = (await library.progress(base=target.id)).total
            return Deletion(what, target.id, target.name, repr(target.name), number)
        if what == "source":
            source = await names.source(name, within)
            number = (await library.progress(source=source.id)).total
            return Deletion(what, source.id, source.name, describe(source), number)
        document = await names.document(name, within)
        return Deletion(what, document.id, document.path, describe(document), 1)


async def _find_base_even_broken(names: NameResolver, name: str) -> Base | BaseBroken:
    """Find a base to delete. If it has lost its editions, return the error that names it."""
    try:
        return await names.base(name)
    except BaseBroken as error:
        return error


async def _delete(deletion: Deletion, tenant: str, where: DatabaseOptions) -> None:
    async with open_library(where, tenant) as (_, library):
        await _delete_method(library, deletion.kind)(deletion.id)


def _delete_method(library: Library, what: DeletableKind) -> Any:
    methods = {
        "document": library.delete_document,
        "source": library.delete_source,
        "base": library.delete_base,
    }
    return methods[what]
