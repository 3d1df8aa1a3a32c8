"""Bases, sources and documents as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock_apps.knowledge.cli.catalogue import BaseListed, SourceListed
from penstock_apps.knowledge.store.documents import Document

STATES = {
    "pending": "cyan",
    "processing": "yellow",
    "completed": "green",
    "partial": "bold yellow",
    "skipped": tables.FAINT,
    "failed": "bold red",
    "cancelled": tables.FAINT,
}


def bases_table(bases: Sequence[BaseListed], width: int) -> RenderableType:
    """What each base has, and how far that is."""
    if not bases:
        return tables.nothing("There are no knowledge bases. `penstock ingest` makes one.")
    sheet = tables.Sheet(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("documents", right=True)
    sheet.column("chunks", right=True)
    sheet.column("to come", right=True)
    sheet.column("skipped", right=True, needed=any(each.stock.counts.skipped for each in bases))
    sheet.column("failed", right=True)
    sheet.column("cancelled", right=True, needed=any(each.stock.counts.cancelled for each in bases))
    sheet.column("model", above=80)
    sheet.column("name", elastic=True)
    for base, stock in bases:
        counts = stock.counts
        sheet.row(
            str(base.id),
            _state("building" if base.next_edition is not None else counts.state),
            f"{counts.total:,}",
            f"{stock.chunks:,}",
            _number(counts.pending + counts.processing, STATES["processing"]),
            _number(counts.skipped),
            _number(counts.failed, STATES["failed"]),
            _number(counts.cancelled),
            base.edition.recipe.embedding.provider,
            Text(base.name),
        )
    return sheet.table


def sources_table(
    sources: Sequence[SourceListed], names: Mapping[int, str], width: int
) -> RenderableType:
    """How far each source is, and what it is of."""
    if not sources:
        return tables.nothing("There are no such sources.")
    sheet = tables.Sheet(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("completed", right=True)
    sheet.column("to come", right=True, above=80)
    sheet.column("skipped", right=True, needed=any(each.counts.skipped for each in sources))
    sheet.column("failed", right=True)
    sheet.column("cancelled", right=True, needed=any(each.counts.cancelled for each in sources))
    sheet.column("batch", right=True)
    sheet.column("base", most=20)
    sheet.column("kind", above=100)
    sheet.column("name", elastic=True)
    sheet.column("of", above=120, elastic=True)
    for source, counts in sources:
        sheet.row(
            str(source.id),
            _state(counts.state),
            f"{counts.completed:,}/{counts.total:,}",
            _number(counts.pending + counts.processing, STATES["processing"]),
            _number(counts.skipped),
            _number(counts.failed, STATES["failed"]),
            _number(counts.cancelled),
            source.batch or "",
            Text(names.get(source.base, str(source.base))),
            source.kind,
            Text(source.name),
            Text(source.key or ""),
        )
    return sheet.table


def documents_table(documents: Sequence[Document], width: int) -> RenderableType:
    """What came of each document, and why it is not in."""
    if not documents:
        return tables.nothing("There are no such documents.")
    sheet = tables.Sheet(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("chunks", right=True)
    sheet.column("source", right=True)
    are_explained = any(each.reason or each.error for each in documents)
    sheet.column("path", most=40 if are_explained else 120, elastic=not are_explained)
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
    return Text(name, STATES.get(name, "magenta"))


def _number(number: int, colour: str = "") -> Text:
    return Text(f"{number:,}", colour if number else tables.FAINT)
