"""How fast documents come in."""

from __future__ import annotations

from benchmarks.knowledge.table import HEAD, facts, rows
from benchmarks.page.markdown import table
from benchmarks.page.results import Document, load, machine, postgres


def documents(run: Document) -> str:
    theirs = run["cocoindex"]
    beside = (
        f"CocoIndex is left out: {theirs['left_out']}."
        if "left_out" in theirs
        else f"CocoIndex {theirs['version']}."
    )
    said = f"{postgres(run)} on {machine(run)}. {beside} {load(run)}"
    return f"{said}\n\n{table(HEAD, rows(run))}\n{table(('', ''), facts(run))}"
