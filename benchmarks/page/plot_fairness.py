"""Draws docs/images/fairness.svg: each tenant's share and waiting time, by how much it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from benchmarks.page.drawing import CARD, FIRST, INK, MUTED, OURS, save_for_both, tidy
from benchmarks.page.results import Document

WAYS = (("first_come", "first come", FIRST), ("fair", "fair turns", OURS))


def draw(run: Document) -> None:
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(10, 4.4), layout="constrained", facecolor=CARD
        )
        shares(left, run)
        waits(right, run)
        for axes in (left, right):
            _dress(axes)
        save_for_both(figure, "fairness.svg")
        pyplot.close(figure)


def shares(axes: Axes, run: Document) -> None:
    """How many jobs of a tenant were started while others arrived."""
    ranks = run["fair"]["ranks"]
    axes.plot(_places(ranks), _of(ranks, "asked"), color=MUTED, linestyle=":", label="asked for")
    for key, name, colour in WAYS:
        found = run[key]["ranks"]
        axes.plot(_places(found), _of(found, "started"), color=colour, label=name)
    axes.set_title(
        f"Jobs per tenant started in the {run['load']['seconds']:.0f} s of arrivals", fontsize=10
    )
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)


def waits(axes: Axes, run: Document) -> None:
    """The median and nine tenths of the jobs."""
    for key, name, colour in WAYS:
        found = run[key]["ranks"]
        spreads = [rank["wait_s"] for rank in found]
        low, middle, high = (
            [max(spread[name], 0.001) for spread in spreads] for name in ("p5", "p50", "p95")
        )
        axes.fill_between(_places(found), low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(_places(found), middle, color=colour, label=name)
    axes.set_title("Seconds that its jobs wait: median, and 5 to 95 %", fontsize=10)


def _places(ranks: Sequence[dict[str, Any]]) -> list[float]:
    """The middle of a group, on a scale of ratios."""
    return [(rank["first"] * rank["last"]) ** 0.5 for rank in ranks]


def _of(ranks: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [rank[name] for rank in ranks]


def _dress(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("tenants, from the largest to the smallest", color=INK)
    tidy(axes)
    axes.set_facecolor(CARD)
    axes.title.set_color(INK)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.tick_params(colors=INK, which="both")
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
