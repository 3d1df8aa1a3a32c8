"""What `penstock bench --tenants` gave: fair queues and limits against plain ones."""

from __future__ import annotations

from typing import Any

from benchmarks.page.markdown import table
from benchmarks.page.peers import rounds
from benchmarks.page.results import Document, load, machine, postgres


def drains(run: Document) -> str:
    """A row for each kind of queue, free and under a held snapshot."""
    found = run["fair"]["drains"]
    where = f"{postgres(run)} on {machine(run)}; {run['jobs']:,} jobs, {rounds(run)}. {load(run)}"
    names = [name for name in found if f"{name}_held" in found]
    rows = [
        [
            found[name]["what"],
            *_rate_and_ratio(found[name], "plain"),
            *_rate_and_ratio(found[f"{name}_held"], "plain_held"),
        ]
        for name in names
    ]
    head = ["", "free, jobs/s", "÷ plain", "held snapshot, jobs/s", "÷ plain"]
    return f"{where}\n\n{table(head, rows)}"


def _rate_and_ratio(drain: dict[str, Any], other: str) -> tuple[str, str]:
    ratio = drain["over"].get(other)
    return f"{drain['jobs_per_s']:,.0f}", "" if ratio is None else _ratio(ratio)


def _ratio(spread: dict[str, float]) -> str:
    median, least, most = (f"{spread[name]:.2f}" for name in ("median", "least", "most"))
    return f"**{median}**" if least == most else f"**{median}**<br>{least}–{most}"


def ratios(run: Document) -> str:
    """The promises, each with what it is measured by."""
    fair = run["fair"]
    found, many, few = fair["drains"], f"{fair['tenants']:,} tenants", f"{fair['tenants'] - 100:,}"
    emptied, one = found["emptied"], found["emptied_one"]
    rows = [
        (f"{many} ÷ one tenant", _ratio(found["many"]["over"]["one"])),
        (f"{many} ÷ one tenant, held snapshot", _ratio(found["many_held"]["over"]["one_held"])),
        (
            f"{many} of which {few} are done, held snapshot ÷ one tenant likewise",
            _ratio(emptied["over"]["emptied_one"]),
        ),
        (
            "from the start of the worker to its first claim then; with one tenant",
            f"{emptied['first_claim_s']:.2f} s; {one['first_claim_s']:.2f} s",
        ),
        ("a limit that binds (as many as the worker's slots) ÷ none", _over_plain(found["bound"])),
        (
            f"two processes: fair and limited, {many} ÷ plain",
            _ratio(found["many_limited_two"]["over"]["plain_two"]),
        ),
        (
            f"enqueue in bulk: fair, {many} ÷ plain",
            _ratio(fair["enqueue"]["bulk_over_plain"]),
        ),
        (
            f"enqueue one by one: fair, {many} ÷ plain",
            _ratio(fair["enqueue"]["single_over_plain"]),
        ),
    ]
    return table(["", "ratio"], rows)


def _over_plain(drain: dict[str, Any]) -> str:
    return _ratio(drain["over"]["plain"])
