"""What the simulation gave."""

from __future__ import annotations

from benchmarks.fairness.table import rows
from benchmarks.page.markdown import table
from benchmarks.page.results import Document, postgres
from benchmarks.page.results import load as busy


def waits(run: Document) -> str:
    load, workers = run["load"], run["workers"]
    slots = workers["processes"] * workers["slots"]
    said = (
        f"{load['tenants']:,} tenants with {load['jobs']:,} jobs; the largest has "
        f"{run['fair']['ranks'][0]['asked']:,.0f}, half of them have at most "
        f"{run['median_size']}. The {load['at_once']} largest bring all of theirs at the start, "
        f"the others' arrive over {load['seconds']:.0f} s. A job takes "
        f"{workers['job_seconds'] * 1000:.0f} ms, and {workers['processes']} worker processes have "
        f"{slots} slots together: {slots / workers['job_seconds']:,.0f} jobs a second, while "
        f"on average {load['jobs'] / load['seconds']:,.0f} arrive. {postgres(run)}."
    )
    return f"{said} {busy(run)}\n\n{table(['', 'first come', 'fair turns'], rows(run))}"
