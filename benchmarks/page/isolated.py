"""What `penstock bench --isolated` gave: jobs in child processes against plain ones."""

from __future__ import annotations

from benchmarks.page.markdown import table
from benchmarks.page.results import Document, load, machine, postgres


def drains(run: Document) -> str:
    """A row for each way to run a job that does nothing."""
    found = run["isolated"]
    said = (
        f"{postgres(run)} on {machine(run)}; {found['jobs']:,} jobs, {found['children']} children. "
        f"{load(run)}"
    )
    head = ["", "jobs/s", "once warm", "÷ plain", "CPU of a job: worker", "children"]
    rows = [
        [
            drain["what"],
            f"{drain['jobs_per_s']:,.0f}",
            f"{drain['warm_jobs_per_s']:,.0f}",
            *([f"**{ratio['median']:.2f}**" for ratio in drain["over"].values()] or [""]),
            f"{drain['worker_cpu_us_per_job']:,.0f} µs",
            f"{drain['children_cpu_us_per_job'] or 0:,.0f} µs",
        ]
        for drain in found["drains"].values()
    ]
    after = found["next_child_ms"]
    return (
        f"{said}\n\n{table(head, rows)}\n"
        f"From the death of a child to the next job in a new one: {after['p50']:.1f} ms at the "
        f"median, {after['p95']:.1f} ms at 95 %.\n"
    )
