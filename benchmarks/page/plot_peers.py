"""Draws docs/images/bench-peers.png: rates, steadiness and pick-up of all that were compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.page.drawing import save, tidy
from benchmarks.page.results import Document, is_disturbed, load, postgres

COLOURS = ("#1b6ca8", "#b5651d", "#5a9367", "#8e5ea2", "#c2a83e", "#7b7f86")
Peers = Sequence[Mapping[str, Any]]


def draw(run: Document) -> None:
    peers: Peers = list(run["peers"].values())
    figure, (left, middle, right) = pyplot.subplots(
        1, 3, figsize=(13, 4), layout="constrained", width_ratios=(1.2, 1, 1)
    )
    rates(left, peers)
    steadiness(middle, peers)
    pick_up(right, peers)
    busy = f"\n{load(run).strip('*')}" if is_disturbed(run) else ""
    figure.suptitle(
        f"No-op jobs, one worker process each, {postgres(run)}, Python {run['python']}, "
        f"rounds: {run['rounds']}{busy}",
        fontsize=10,
    )
    save(figure, "bench-peers.png")


def rates(axes: Axes, peers: Peers) -> None:
    """Bars with the range of the rounds: filled when free, hollow under a held snapshot."""
    for place, (peer, colour) in enumerate(zip(peers, COLOURS, strict=False)):
        _bar(axes, place - 0.2, peer["drain_per_s"], facecolor=colour, edgecolor=colour)
        _bar(axes, place + 0.2, peer["held_per_s"], facecolor="white", edgecolor=colour)
    axes.set_yscale("log")
    axes.set_xticks(range(len(peers)), [peer["name"] for peer in peers], rotation=30, fontsize=8)
    axes.set_title("Drain, jobs/s (hollow: held snapshot)", fontsize=9)
    tidy(axes)


def _bar(axes: Axes, place: float, spread: Mapping[str, float], **colours: Any) -> None:
    median = spread["median"]
    ends = [[median - spread["least"]], [spread["most"] - median]]
    axes.bar([place], [median], width=0.36, yerr=ends, capsize=2, **colours)
    axes.annotate(
        f"{median:,.0f}", (place, spread["most"]), (0, 2), textcoords="offset points",
        ha="center", fontsize=6,
    )  # fmt: skip


def steadiness(axes: Axes, peers: Peers) -> None:
    """Each tenth of the held drain against the median of all ten: flat is good."""
    for peer, colour in zip(peers, COLOURS, strict=False):
        tenths = peer["held_tenths"]
        middle = sorted(tenths)[5]
        axes.plot(
            range(1, 11), [rate / middle for rate in tenths], color=colour, label=peer["name"]
        )
    axes.set_ylim(0, 2)
    axes.set_xticks(range(1, 11))
    axes.set_title("Over the held drain, by tenths of the jobs", fontsize=9)
    axes.legend(frameon=False, fontsize=7, ncols=2)
    tidy(axes)
    axes.yaxis.set_major_formatter("{x:.1f}×")


def pick_up(axes: Axes, peers: Peers) -> None:
    """From the median to the 99th hundredth."""
    for place, (peer, colour) in enumerate(zip(peers, COLOURS, strict=False)):
        p50, p99 = (peer[key]["median"] for key in ("pick_up_p50_ms", "pick_up_p99_ms"))
        axes.plot([place, place], [p50, p99], color=colour, marker="_", markersize=14)
        axes.plot([place], [p50], color=colour, marker="o")
    axes.set_yscale("log")
    axes.set_xticks(range(len(peers)), [peer["name"] for peer in peers], rotation=30, fontsize=8)
    axes.set_title("Pick-up by an idle worker, ms: median to 99 %", fontsize=9)
    tidy(axes)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
