"""Show the bench's progress while it measures, and its results as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.table import Table


class LiveLine:
    """Show on stderr what is being measured, and a line for each result."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._activity = ""

    @contextmanager
    def doing(self, activity: str) -> Iterator[None]:
        self._activity = activity
        with self._console.status(activity) as self._status:
            yield
        self._status = None

    def progress(self, done: int, total: int) -> None:
        if self._status is not None:
            self._status.update(f"{self._activity}  {done:,} of {total:,}")

    def result(self, label: str, value: str) -> None:
        self._console.print(f"{label:<42} {value}")

    def warn(self, text: str) -> None:
        self._console.print(text, style="yellow")


def results_table(document: dict[str, Any]) -> Table:
    """Return a table of the rates, ratios and times of a run, one per row."""
    versions = f"Postgres {document['postgres']}, Python {document['python']}"
    table = Table(title=f"{document['jobs']:,} jobs, {versions}", show_header=False)
    for name, value in [*_rates(document), *_times(document), *_extras(document)]:
        table.add_row(name, value)
    return table


def _rates(document: dict[str, Any]) -> list[tuple[str, str]]:
    drain, held, enqueue = document["drain"], document["held"], document["enqueue"]
    return [
        ("drain", f"{drain['jobs_per_s']:,.0f} jobs/s"),
        ("  of a bare loop", f"{drain['ratio']:.2f} × {drain['ceiling_jobs_per_s']:,.0f}"),
        ("drain under a held snapshot", f"{held['jobs_per_s']:,.0f} jobs/s"),
        ("  of the free drain", f"{held['over_free']:.2f} ×"),
        ("  last tenth of the first", f"{held['last_over_first']:.2f} ×"),
        ("enqueue one by one", f"{enqueue['single_per_s']:,.0f} jobs/s"),
        ("enqueue in bulk", f"{enqueue['bulk_per_s']:,.0f} jobs/s"),
    ]


def _times(document: dict[str, Any]) -> list[tuple[str, str]]:
    latency = document["latency_ms"]
    pick_up = f"{latency['p50']:.1f} ms, p95 {latency['p95']:.1f}, p99 {latency['p99']:.1f}"
    return [
        ("pick-up by an idle worker", pick_up),
        ("worker CPU per 1,000 jobs", f"{document['cpu_ms_per_1000_jobs']:.1f} ms"),
        ("worker memory at most", f"{document['max_rss_mb'] or 0:.0f} MB"),
    ]


def _extras(document: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if processes := document.get("processes"):
        rows.append(
            (f"{processes['count']} worker processes", f"{processes['ratio']:.2f} × of one")
        )
    for entry in document.get("backlog", ()):
        rows.append((f"claim of 500 from {entry['jobs']:,}", f"{entry['claim_ms']:.1f} ms"))
    if soak := document.get("soak"):
        growth = f"{soak['rss_mb_at_tenth']:.0f} → {soak['rss_mb_at_end']:.0f} MB"
        rows.append((f"memory over {soak['jobs']:,} jobs", growth))
    if dead := document.get("dead"):
        rows.append((f"drain past {dead['entries']:,} dead", f"{dead['over_free']:.2f} × of free"))
    for name in ("fair", "batch", "isolated"):
        rows.extend(_drains(document.get(name, {}).get("drains", {})))
    if isolated := document.get("isolated"):
        rows.extend(isolation_costs(isolated))
    return rows


def isolation_costs(isolated: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows about child processes: CPU time of jobs, and the time to replace a child."""
    rows = [
        (
            f"  CPU of a job, {drain['what']}",
            f"{drain['worker_cpu_us_per_job']:,.0f} µs in the worker, "
            f"{drain['children_cpu_us_per_job'] or 0:,.0f} in children",
        )
        for drain in isolated["drains"].values()
    ]
    next_ms = isolated["next_child_ms"]
    delay = f"{next_ms['p50']:.1f} ms, p95 {next_ms['p95']:.1f}, p99 {next_ms['p99']:.1f}"
    return [*rows, ("from a child's death to the next job", delay)]


def _drains(drains: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a row for each drain, with its rate and its ratios to other drains."""
    return [
        (
            drain["what"],
            f"{drain['jobs_per_s']:,.0f} jobs/s"
            + "".join(
                f", {ratio['median']:.2f} × {drains[other]['what']}"
                for other, ratio in drain["over"].items()
            ),
        )
        for drain in drains.values()
    ]
