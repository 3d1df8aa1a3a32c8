"""Draws docs/images/bench.png: a drain over time, against the bare loop."""

from __future__ import annotations

from matplotlib import pyplot

from benchmarks.page.drawing import GREY, OURS, save, tidy
from benchmarks.page.results import Document, is_disturbed, load, postgres


def draw(run: Document) -> None:
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    places = range(1, 11)
    axes.plot(places, run["drain"]["tenths"], color=OURS, marker="o", label="drain")
    axes.plot(
        places,
        run["held"]["tenths"],
        color=OURS,
        linestyle="--",
        marker="o",
        markerfacecolor="white",
        label="drain, held snapshot",
    )
    axes.axhline(run["drain"]["ceiling_jobs_per_s"], color=GREY, label="bare loop")
    axes.set_xlabel("tenth of the jobs")
    axes.set_ylabel("jobs/s")
    axes.set_xticks(list(places))
    axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    tidy(axes)
    busy = f"\n{load(run).strip('*')}" if is_disturbed(run) else ""
    figure.suptitle(
        f"{run['jobs']:,} no-op jobs, one worker process, {postgres(run)}{busy}", fontsize=10
    )
    save(figure, "bench.png")
