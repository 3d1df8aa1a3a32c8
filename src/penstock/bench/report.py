"""What the bench shows: its progress while it measures, and the results as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.table import Table


class Live:
    """One line for what is under way, one line for each result; on stderr."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._what = ""

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        self._what = what
        with self._console.status(what) as self._status:
            yield
        self._status = None

    def progress(self, done: int, total: int) -> None:
        if self._status is not None:
            self._status.update(f"{self._what}  {done:,} of {total:,}")

    def result(self, what: str, value: str) -> None:
        self._console.print(f"{what:<42} {value}")

    def warn(self, text: str) -> None:
        self._console.print(text, style="yellow")


def table(document: dict[str, Any]) -> Table:
    """Rates, ratios and times, one a row."""
    versions = f"Postgres {document['postgres']}, Python {document['python']}"
    made = Table(title=f"{document['jobs']:,} jobs, {versions}", show_header=False)
    for name, value in [*_rates(document), *_times(document), *_extras(document)]:
        made.add_row(name, value)
    return made


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
    if some := document.get("processes"):
        rows.append((f"{some['count']} worker processes", f"{some['ratio']:.2f} × of one"))
    for entry in document.get("backlog", ()):
        rows.append((f"claim of 500 from {entry['jobs']:,}", f"{entry['claim_ms']:.1f} ms"))
    if soak := document.get("soak"):
        grown = f"{soak['rss_mb_at_tenth']:.0f} → {soak['rss_mb_at_end']:.0f} MB"
        rows.append((f"memory over {soak['jobs']:,} jobs", grown))
    if dead := document.get("dead"):
        rows.append((f"drain past {dead['entries']:,} dead", f"{dead['over_free']:.2f} × of free"))
    for name in ("fair", "batch", "isolated"):
        rows.extend(_drains(document.get(name, {}).get("drains", {})))
    if isolated := document.get("isolated"):
        rows.extend(isolation_costs(isolated))
    return rows


def isolation_costs(isolated: dict[str, Any]) -> list[tuple[str, str]]:
    """What a job in a child process costs, and how soon there is another child."""
    rows = [
        (
            f"  CPU of a job, {drain['what']}",
            f"{drain['worker_cpu_us_per_job']:,.0f} µs in the worker, "
            f"{drain['children_cpu_us_per_job'] or 0:,.0f} in children",
        )
        for drain in isolated["drains"].values()
    ]
    next_ms = isolated["next_child_ms"]
    told = f"{next_ms['p50']:.1f} ms, p95 {next_ms['p95']:.1f}, p99 {next_ms['p99']:.1f}"
    return [*rows, ("from a child's death to the next job", told)]


def _drains(drains: dict[str, Any]) -> list[tuple[str, str]]:
    """Each drain of a kind, and what it is of those that it is compared with."""
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
