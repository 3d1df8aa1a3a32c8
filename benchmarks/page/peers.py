"""What the comparison gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.comparison.table import ROWS
from benchmarks.page.markdown import table
from benchmarks.page.results import Document, load, machine, postgres

OURS = "penstock"
PROMISES = (
    ("core", "core"),
    ("claim", "a claim takes"),
    ("completion", "the end of a job is written"),
    ("history", "finished jobs"),
    ("fence", "fence against a worker that was given up"),
    ("liveness", "a dead worker is noticed by"),
    ("delivery", "delivery"),
)


def rates(run: Document) -> str:
    """A column for each, the median above its range."""
    peers = run["peers"].values()
    rows = [
        ["jobs of a drain", *(f"{peer['jobs']:,}" for peer in peers)],
        *([name, *(cell(peer.get(key), digits) for peer in peers)] for key, name, digits in ROWS),
    ]
    where = f"{postgres(run)} on {machine(run)}; {rounds(run)}. {load(run)}"
    return f"{where}\n\n{table(['', *map(named, peers)], rows)}{left_out(run)}"


def rounds(run: Document) -> str:
    if run["rounds"] == 1:
        return "one round"
    return f"medians of {run['rounds']} rounds, with the least and the most"


def named(peer: Mapping[str, Any]) -> str:
    return f"[{peer['name']}]({peer['home']}) {peer['version']}"


def cell(spread: Mapping[str, float] | None, digits: int) -> str:
    """A median with its range; one number where there was one round."""
    if spread is None:
        return "–"
    median, least, most = (f"{spread[name]:,.{digits}f}" for name in ("median", "least", "most"))
    return median if least == most else f"{median}<br>{least}–{most}"


def left_out(run: Document) -> str:
    reasons = [f"{name}: {reason.rstrip('.')}." for name, reason in run["left_out"].items()]
    return f"\nLeft out: {' '.join(reasons)}\n" if reasons else ""


def losses(run: Document) -> str:
    """Where somebody else is better, by the medians."""
    found = list(_better(run))
    if not found:
        return "By these medians nobody else is better in any row.\n"
    return "".join(f"- {line}\n" for line in found)


def _better(run: Document) -> Iterator[str]:
    ours = run["peers"][OURS]
    for key, name, digits in ROWS:
        sign = 1 if key.endswith("_per_s") else -1
        ahead = [
            f"{peer['name']} {peer[key]['median']:,.{digits}f}"
            for peer in run["peers"].values()
            if key in peer and sign * (peer[key]["median"] - ours[key]["median"]) > 0
        ]
        if ahead:
            yield f"{name}: {', '.join(ahead)}; Penstock {ours[key]['median']:,.{digits}f}"


def settings(run: Document) -> str:
    """How each was run, why so, and what else was tried."""
    return "".join(f"- {_run_as(peer)}\n" for peer in run["peers"].values())


def _run_as(peer: Mapping[str, Any]) -> str:
    chosen = ", ".join(f"`{name}` {value:,}" for name, value in peer["settings"].items())
    head = f"**{peer['name']}**" + (f", {chosen}" if chosen else "")
    tried = "; ".join(f"{name}: {rate:,.0f}" for name, rate in peer["tried_per_s"].items())
    sweep = f" Tried, in jobs/s of a shorter drain: {tried}." if tried else ""
    return f"{head}. {' '.join(peer['reasons'])}{sweep}"


def promises(run: Document) -> str:
    peers: Sequence[Mapping[str, Any]] = list(run["peers"].values())
    return table(
        ["", *(peer["name"] for peer in peers)],
        ([name, *(peer["promises"][key] for peer in peers)] for key, name in PROMISES),
        numbers=False,
    )
