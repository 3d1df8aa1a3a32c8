"""Write the numbers of docs/benchmarks.md anew from the results: `python benchmarks/report.py`.

Whatever stands between `<!-- results: name -->` and `<!-- end -->` is replaced; the text around it
is written by hand and names no numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Document = dict[str, Any]


def main() -> None:
    text = PAGE.read_text()
    PAGE.write_text(BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]() + found[3], text))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    names = list(head)
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def read(name: str) -> Document:
    document: Document = json.loads((RESULTS / f"{name}.json").read_text())
    return document


def runs() -> list[Document]:
    """The runs of `penstock bench`, one for each version of Postgres, newest first."""
    found = [json.loads(path.read_text()) for path in RESULTS.glob("bench*.json")]
    return sorted(found, key=lambda run: -int(run["postgres"].split(".")[0]))


def versions(run: Document) -> str:
    return f"Postgres {run['postgres'].split()[0]}"


def setting() -> str:
    run = runs()[0]
    servers = " and ".join(versions(one) for one in runs())
    durable = ", ".join(
        f"`{name} = {run[name]}`" for name in ("fsync", "synchronous_commit", "full_page_writes")
    )
    return (
        f"{run['machine']['system']} with {run['machine']['cores']} cores, shared by Postgres, the "
        f"worker and the bench; {servers} with {durable}; Python {run['python']}; "
        f"{run['jobs']:,} jobs, the medians of {run['rounds']} rounds. {load(run)}\n"
    )


def load(run: Document) -> str:
    """A warning where others used the machine: even ratios are then little worth."""
    before, cores = run["machine"]["load_before"], run["machine"]["cores"]
    # The run before this one leaves a load of about one behind it.
    if before <= cores * 0.75:
        return f"The load of the machine before was {before:.1f}."
    return f"**Other programs ran at the same time (load {before:.1f}): this is preliminary.**"


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
        ["", *map(versions, runs())],
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
    return table(["", versions(runs()[0])], rows)


def peers() -> str:
    run = read("peers")
    ours, theirs, share = run["penstock"], run["pgqueuer"], run["ratios"]
    rows = [
        (name, f"{ours[key]:,.{digits}f}", f"{theirs[key]:,.{digits}f}", f"{share[key]:.2f}")
        for name, key, digits in (
            ("drain, jobs/s", "drain_jobs_per_s", 0),
            ("drain under a held snapshot, jobs/s", "held_jobs_per_s", 0),
            ("enqueue in bulk, jobs/s", "bulk_per_s", 0),
            ("enqueue one by one, jobs/s", "single_per_s", 0),
            ("worker CPU per 1,000 jobs, ms", "cpu_ms_per_1000_jobs", 1),
            ("worker memory at most, MB", "max_rss_mb", 0),
        )
    ]
    pick_up = [one["latency_ms"]["p50"] for one in (ours, theirs)]
    rows.append(
        (
            "pick-up, median, ms",
            f"{pick_up[0]:.1f}",
            f"{pick_up[1]:.1f}",
            f"{share['latency_p50']:.2f}",
        )
    )
    used = run["pgqueuer_settings"]
    managers = f", {used['managers']} queue managers" if used["managers"] > 1 else ""
    return (
        f"PgQueuer {run['pgqueuer_version']} with a {used['driver']} and batches of "
        f"{used['batch']:,}{managers}; {versions(run)}. {load(run)}\n\n"
    ) + table(["", "Penstock", "PgQueuer", "ratio"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "setting": setting,
    "rates": rates,
    "limits": limits,
    "peers": peers,
}


if __name__ == "__main__":
    main()
