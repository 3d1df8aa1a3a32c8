"""The measurement as a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

HEAD = ("", "Penstock", "CocoIndex", "ratio")
Document = Mapping[str, Any]


def rows(document: Document) -> list[list[str]]:
    """What both do, side by side."""
    ours, theirs = document["ours"], document["cocoindex"]
    if "left_out" in theirs:
        theirs = None
    return [
        _row("files", ours, theirs, lambda one: ours["files"], "{:,.0f}", None),
        _row("chunks", ours, theirs, lambda one: one["chunks"], "{:,.0f}", None),
        _row("bytes of a chunk", ours, theirs, lambda one: one["chunk_bytes"], "{:,.0f}", None),
        _row("seconds", ours, theirs, lambda one: one["seconds"], "{:.1f}", None),
        _row("files/s", ours, theirs, lambda one: ours["files"] / one["seconds"], "{:,.1f}", 1),
        _row(
            "**chunks/s**", ours, theirs, lambda one: one["chunks"] / one["seconds"], "{:,.0f}", 1
        ),
        _row("unchanged, seconds", ours, theirs, lambda one: one["again_seconds"], "{:.2f}", -1),
    ]


def facts(document: Document) -> list[list[str]]:
    """What only we do."""
    edits, pdf = document["edits"], document["extraction"]
    return [
        ["files of a manual, edited by a seed", f"{edits['edited_files']} of {edits['files']:,}"],
        ["chunks that this changes, of all", f"{edits['changed_chunks']} of {edits['chunks']:,}"],
        ["**chunks embedded again**", f"**{edits['embedded']}**"],
        ["PDF files a minute and core", f"{pdf['ours_per_minute']:,.0f}"],
        ["with bare pypdfium2", f"{pdf['bare_per_minute']:,.0f}"],
        ["**ratio**", f"**{pdf['ratio']:.2f}**"],
    ]


def _row(
    name: str, ours: Document, theirs: Document | None, value: Any, form: str, better: int | None
) -> list[str]:
    mine = value(ours)
    if theirs is None:
        return [name, form.format(mine), "", ""]
    other = value(theirs)
    ratio = "" if better is None else f"{(mine / other) ** better:.2f}"
    return [name, form.format(mine), form.format(other), ratio]


def table(document: Document) -> Table:
    made = Table(title="Documents coming in")
    for title in HEAD:
        made.add_column(title, justify="right" if title else "left")
    for row in (*rows(document), *([*fact, "", ""] for fact in facts(document))):
        made.add_row(*(cell.strip("*") for cell in row))
    return made
