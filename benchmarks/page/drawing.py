"""What the pictures have in common."""

from __future__ import annotations

import matplotlib

from benchmarks.page.results import DOCS

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS, GREY = "#1b6ca8", "#8a8f98"


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def save(figure: Figure, name: str) -> None:
    figure.savefig(DOCS / "images" / name, dpi=150)
