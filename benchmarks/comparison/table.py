"""The comparison as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

# What the document calls it, what people call it, and how many digits mean something.
ROWS: Sequence[tuple[str, str, int]] = (
    ("drain_per_s", "drain, jobs/s", 0),
    ("held_per_s", "drain under a held snapshot, jobs/s", 0),
    ("two_processes_per_s", "drain by two processes, jobs/s", 0),
    ("bulk_per_s", "enqueue in bulk, jobs/s", 0),
    ("single_per_s", "enqueue one by one, jobs/s", 0),
    ("pick_up_p50_ms", "pick-up, median, ms", 1),
    ("pick_up_p99_ms", "pick-up, 99 %, ms", 1),
    ("worker_cpu_ms", "worker CPU per 1,000 jobs, ms", 1),
    ("postgres_cpu_ms", "Postgres CPU per 1,000 jobs, ms", 1),
    ("memory_mb", "worker memory at most, MB", 0),
)


def table(document: Mapping[str, Any]) -> Table:
    """One column a peer, the medians alone."""
    peers = document["peers"].values()
    made = Table(title=f"Postgres {document['postgres']}, Python {document['python']}")
    made.add_column("", no_wrap=True)
    for peer in peers:
        made.add_column(peer["name"], justify="right", no_wrap=True)
    made.add_row("jobs of a drain", *(f"{peer['jobs']:,}" for peer in peers))
    for key, name, digits in ROWS:
        made.add_row(name, *(f"{peer[key]['median']:,.{digits}f}" for peer in peers if key in peer))
    return made
