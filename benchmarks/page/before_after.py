"""What plain jobs cost before a change and after it."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.comparison.table import ROWS
from benchmarks.page.markdown import table
from benchmarks.page.peers import cell, rounds
from benchmarks.page.results import Document, load, machine, postgres


def rates(run: Document) -> str:
    plain = run["scenes"]["plain"]
    where = f"{postgres(run)} on {machine(run)}; {plain['jobs']:,} jobs, {rounds(run)}. {load(run)}"
    rows = [
        [name, cell(row["before"], digits), cell(row["now"], digits), _ratio(row["ratio"])]
        for key, name, digits in ROWS
        if (row := plain["rows"].get(key)) is not None
    ]
    head = ["", f"before (`{run['before']}`)", f"after (`{run['now']}`)", "after ÷ before"]
    return f"{where}\n\n{table(head, rows)}"


def _ratio(ratio: Mapping[str, float]) -> str:
    """A median with the interval that it is expected in."""
    return cell({"median": ratio["median"], "least": ratio["low"], "most": ratio["high"]}, 2)
