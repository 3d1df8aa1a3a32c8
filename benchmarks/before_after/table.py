"""Before and after as a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from benchmarks.comparison.table import ROWS


def table(document: Mapping[str, Any]) -> Table:
    """One row a measurement: the medians, and the range of the ratio."""
    made = Table(title=f"{document['jobs']:,} jobs, {document['rounds']} rounds")
    for title in ("", f"before ({document['before']})", f"now ({document['now']})", "now ÷ before"):
        made.add_column(title, justify="right" if title else "left", no_wrap=True)
    for key, name, digits in ROWS:
        if (row := document["rows"].get(key)) is not None:
            medians = (f"{row[when]['median']:,.{digits}f}" for when in ("before", "now"))
            ratio = row["ratio"]
            spread = f"{ratio['median']:.3f} ({ratio['least']:.2f}–{ratio['most']:.2f})"
            made.add_row(name, *medians, spread)
    return made
