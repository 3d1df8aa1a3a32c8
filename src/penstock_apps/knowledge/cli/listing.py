"""What `penstock knowledge bases`, `sources` and `documents` do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.cli.options import Where
from penstock.cli.output import Output, say, terminal
from penstock_apps.knowledge.cli.catalogue import BaseListed, Catalogue, SourceListed
from penstock_apps.knowledge.cli.naming import Naming
from penstock_apps.knowledge.cli.opening import opened
from penstock_apps.knowledge.cli.page import Page
from penstock_apps.knowledge.cli.tables import bases_table, documents_table, sources_table
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.counts import Counts
from penstock_apps.knowledge.store.documents import Document

# Of a document for programs; ids are strings, as everywhere.
IDS = ("id", "base", "source")
LEFT_OUT = ("tenant", "object", "published")


async def show_bases(tenant: str, base: str | None, where: Where, output: Output) -> None:
    async with opened(where, tenant) as (_, library):
        found = await Catalogue(library).bases(await _base(library, base))
    document = {"bases": [_base_document(each) for each in found]}
    output.show(document, lambda: bases_table(found, terminal().width))


async def show_sources(
    tenant: str, base: str | None, state: str | None, page: Page, where: Where, output: Output
) -> None:
    async with opened(where, tenant) as (_, library):
        within = await _base(library, base)
        found = await Catalogue(library).sources(within, state, page.start, page.limit)
        names = {each.id: each.name for each in await library.bases()}
    after = str(found[-1].source.id) if len(found) == page.limit else None
    document = {"sources": [_source_document(each) for each in found], "after": after}
    output.show(document, lambda: sources_table(found, names, terminal().width))
    _tell_more(after, output)


async def show_documents(
    tenant: str,
    base: str | None,
    source: str | None,
    state: str | None,
    page: Page,
    where: Where,
    output: Output,
) -> None:
    async with opened(where, tenant) as (_, library):
        within = await _base(library, base)
        of = None if source is None else await Naming(library).source(source, within)
        found = await Catalogue(library).documents(within, of, state, page.start, page.limit)
    after = str(found[-1].id) if len(found) == page.limit else None
    document = {"documents": [_document(each) for each in found], "after": after}
    output.show(document, lambda: documents_table(found, terminal().width))
    _tell_more(after, output)


async def _base(library: Library, name: str | None) -> Base | None:
    return None if name is None else await Naming(library).base(name)


def _tell_more(after: str | None, output: Output) -> None:
    if after is not None and not output.as_json:
        say(f"There may be more: --after {after}.")


def _base_document(listed: BaseListed) -> dict[str, Any]:
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
        **_counted(stock.counts),
    }


def _source_document(listed: SourceListed) -> dict[str, Any]:
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
        **_counted(counts),
    }


def _counted(counts: Counts) -> Mapping[str, Any]:
    states = ("pending", "processing", "completed", "skipped", "failed", "cancelled")
    return {"state": counts.state, **{name: getattr(counts, name) for name in states}}


def _document(document: Document) -> dict[str, Any]:
    values = msgspec.structs.asdict(document)
    shown = {name: value for name, value in values.items() if name not in LEFT_OUT}
    return shown | {name: str(values[name]) for name in IDS}
