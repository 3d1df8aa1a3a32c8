"""What plain jobs cost before a change and after it."""

from __future__ import annotations

from benchmarks.comparison.table import ROWS
from benchmarks.page.markdown import table
from benchmarks.page.peers import cell, rounds
from benchmarks.page.results import Document, load, machine, postgres


def rates(run: Document) -> str:
    where = f"{postgres(run)} on {machine(run)}; {run['jobs']:,} jobs, {rounds(run)}. {load(run)}"
    rows = [
        [name, cell(row["before"], digits), cell(row["now"], digits), cell(row["ratio"], 2)]
        for key, name, digits in ROWS
        if (row := run["rows"].get(key)) is not None
    ]
    head = ["", f"before (`{run['before']}`)", f"after (`{run['now']}`)", "after ÷ before"]
    return f"{where}\n\n{table(head, rows)}"
