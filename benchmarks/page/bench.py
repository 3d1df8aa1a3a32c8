"""What `penstock bench` gave."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.page.markdown import table
from benchmarks.page.results import Document, load, machine, postgres, runs


def setting() -> str:
    run = runs()[0]
    servers = " and ".join(map(postgres, runs()))
    return (
        f"{servers} on {machine(run)}; {run['jobs']:,} jobs, the medians of {run['rounds']} "
        f"rounds. {load(run)}\n"
    )


def rates() -> str:
    rows: list[tuple[str, Callable[[Document], str]]] = [
        ("drain, jobs/s", lambda run: f"{run['drain']['jobs_per_s']:,.0f}"),
        ("bare loop, jobs/s", lambda run: f"{run['drain']['ceiling_jobs_per_s']:,.0f}"),
        ("**drain ÷ bare loop**", lambda run: f"**{run['drain']['ratio']:.2f}**"),
        (
            "bare loop with claim and settle overlapped, jobs/s",
            lambda run: f"{run['ceiling_overlapped']['jobs_per_s']:,.0f}",
        ),
        ("drain under a held snapshot, jobs/s", lambda run: f"{run['held']['jobs_per_s']:,.0f}"),
        ("**held ÷ free**", lambda run: f"**{run['held']['over_free']:.2f}**"),
        (
            "free: last tenth ÷ first tenth",
            lambda run: f"{run['drain']['last_over_first']:.2f}",
        ),
        (
            "**held: last tenth ÷ first tenth**",
            lambda run: f"**{run['held']['last_over_first']:.2f}**",
        ),
        ("enqueue one by one, jobs/s", lambda run: f"{run['enqueue']['single_per_s']:,.0f}"),
        ("enqueue in bulk, jobs/s", lambda run: f"{run['enqueue']['bulk_per_s']:,.0f}"),
        ("pick-up by an idle worker, median", lambda run: f"{run['latency_ms']['p50']:.1f} ms"),
        ("pick-up, 95 %", lambda run: f"{run['latency_ms']['p95']:.1f} ms"),
        ("pick-up, 99 %", lambda run: f"{run['latency_ms']['p99']:.1f} ms"),
        ("worker CPU per 1,000 jobs", lambda run: f"{run['cpu_ms_per_1000_jobs']:.1f} ms"),
        (
            "Postgres CPU per 1,000 jobs",
            lambda run: f"{run['postgres_cpu_ms_per_1000_jobs'] or 0:.1f} ms",
        ),
        ("worker memory at most", lambda run: f"{run['max_rss_mb']:.0f} MB"),
    ]
    return table(
        ["", *map(postgres, runs())],
        ([name, *(value(run) for run in runs())] for name, value in rows),
    )


def limits() -> str:
    """The longer measurements, of the run that has them."""
    rows = []
    for run in runs():
        if some := run.get("processes"):
            rows.append((f"{some['count']} worker processes ÷ one", f"{some['ratio']:.2f}"))
        for entry in run.get("backlog", ()):
            rows.append(
                (f"claim of 500, {entry['jobs']:,} jobs ready", f"{entry['claim_ms']:.1f} ms")
            )
        if soak := run.get("soak"):
            rows.append(
                (f"memory after a tenth of {soak['jobs']:,}", f"{soak['rss_mb_at_tenth']:.1f} MB")
            )
            rows.append((f"memory after all {soak['jobs']:,}", f"{soak['rss_mb_at_end']:.1f} MB"))
        if dead := run.get("dead"):
            rows.append((f"drain past {dead['entries']:,} dead ÷ free", f"{dead['over_free']:.2f}"))
            rows.append(("its last tenth ÷ first tenth", f"{dead['last_over_first']:.2f}"))
            rows.append(("from its start to the first claim", f"{dead['first_claim_s']:.1f} s"))
    return table(["", postgres(runs()[0])], rows)
