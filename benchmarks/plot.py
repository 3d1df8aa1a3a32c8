"""Draw docs/images/bench.png from the results: `python benchmarks/plot.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results" / "peers.json"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "bench.png"

# Less than this comes from the system itself.
QUIET = 1.5
OURS, THEIRS, BARE = "#1b6ca8", "#b5651d", "#8a8f98"


def lines(axes: Axes, document: dict[str, Any]) -> None:
    """Jobs a second in each tenth of the drain: flat is good."""
    places = range(1, 11)
    for name, key, colour in (("Penstock", "penstock", OURS), ("PgQueuer", "pgqueuer", THEIRS)):
        results = document[key]
        axes.plot(places, results["drain_tenths"], color=colour, marker="o", label=name)
        axes.plot(
            places,
            results["held_tenths"],
            color=colour,
            linestyle="--",
            marker="o",
            markerfacecolor="white",
            label=f"{name}, held snapshot",
        )
    axes.set_title("Over the drain")
    axes.set_xlabel("tenth of the jobs")
    axes.set_ylabel("jobs/s")
    axes.set_xticks(list(places))
    axes.legend(frameon=False, fontsize=8)


def bars(axes: Axes, document: dict[str, Any]) -> None:
    """Whole drains, against the bare loop."""
    ours, theirs = document["penstock"], document["pgqueuer"]
    rates = [
        ("bare loop", document["ceiling_jobs_per_s"], BARE),
        ("Penstock", ours["drain_jobs_per_s"], OURS),
        ("Penstock,\nheld", ours["held_jobs_per_s"], OURS),
        ("PgQueuer", theirs["drain_jobs_per_s"], THEIRS),
        ("PgQueuer,\nheld", theirs["held_jobs_per_s"], THEIRS),
    ]
    names, values, colours = zip(*rates, strict=True)
    drawn = axes.bar(names, values, color=colours, width=0.65)
    axes.bar_label(drawn, fmt="{:,.0f}", fontsize=8, padding=2)
    axes.set_title("The whole drain")
    axes.tick_params(axis="x", labelsize=8)


def main() -> None:
    document = json.loads(RESULTS.read_text())
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    lines(left, document)
    bars(right, document)
    for axes in (left, right):
        axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.15)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    load = document["machine"]["load_before"]
    busy = f"\npreliminary: other programs ran, load {load:.1f}" if load > QUIET else ""
    versions = f"Postgres {document['postgres'].split()[0]}, Python {document['python']}"
    figure.suptitle(
        f"{document['jobs']:,} no-op jobs, one worker process, {versions}{busy}", fontsize=10
    )
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=150)


if __name__ == "__main__":
    main()
