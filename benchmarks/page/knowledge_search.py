"""How well and how fast knowledge is searched."""

from __future__ import annotations

from benchmarks.knowledge_search.table import QUALITY, RECALL, SPEED, quality, recall, speed
from benchmarks.page.markdown import table
from benchmarks.page.results import Document, load, machine, postgres


def search(run: Document) -> str:
    said = (
        f"{postgres(run)} with `shared_buffers = {run['shared_buffers']}` on {machine(run)}; "
        f"{run['chunks']:,} chunks. {load(run)}"
    )
    tables = (
        table(QUALITY, quality(run)),
        table(RECALL, recall(run)),
        table(SPEED, speed(run)),
    )
    return f"{said}\n\n" + "\n".join(tables)
