"""What items gain and pay that share calls."""

from __future__ import annotations

from benchmarks.micro_batching.table import HEAD, rows
from benchmarks.page.markdown import table
from benchmarks.page.results import Document, load, postgres


def calls(run: Document) -> str:
    batch, workers = run["batch"], run["workers"]
    said = (
        f"Calls of up to {batch['size']} items, `linger` {batch['linger']:g} s; a call takes "
        f"{workers['call_seconds'] * 1000:.0f} ms, and {workers['calls_at_once']} run at once. "
        f"{postgres(run)}. {load(run)}"
    )
    return f"{said}\n\n{table(HEAD, rows(run))}"
