"""What the pictures have in common."""

from __future__ import annotations

import io

import matplotlib

from benchmarks.page.results import DOCS

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS, GREY = "#1b6ca8", "#8a8f98"
# Of pictures that follow the theme of their reader.
CARD, INK, MUTED, FIRST = "#ffffff", "#24292f", "#57606a", "#b5651d"
DARK = {
    CARD: "#0d1117",
    INK: "#e6edf3",
    MUTED: "#9da7b3",
    OURS: "#58a6ff",
    FIRST: "#e0964f",
}


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def save(figure: Figure, name: str) -> None:
    figure.savefig(DOCS / "images" / name, dpi=150)


def save_for_both(figure: Figure, name: str) -> None:
    """As SVG that follows the reader's light or dark theme."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    rules = "".join(
        f'[style*="{property}: {light}"] {{ {property}: {dark} !important }}'
        for light, dark in DARK.items()
        for property in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme: dark) {{ {rules} }}</style>"
    head, defs, rest = text.getvalue().partition("<defs>")
    picture = f"{head}{style}\n {defs}{rest}"
    (DOCS / "images" / name).write_text(
        "".join(f"{line.rstrip()}\n" for line in picture.splitlines())
    )
