"""Draw an SVG of the demo: jobs per second over time, and when each worker process ran."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from penstock.demo.stage import WORKERS
from penstock.demo.summary import DemoSummary

WIDTH, HEIGHT = 960, 490
LEFT, RIGHT, TOP, BOTTOM = 84, 936, 106, 350
ROW_HEIGHT, ROWS_TOP = 20, 386
SLICE_S = 0.5
COLOURS = {
    "thumbnail": "#4c78a8",
    "checksum": "#72b7b2",
    "transcribe": "#eeca3b",
    "fetch_page": "#f58518",
    "await_export": "#b279a2",
    "crash": "#e45756",
}
KILLED, RESCUED, INK, FAINT = "#c62828", "#2e7d32", "#24292f", "#8c959f"


def draw(summary: DemoSummary, path: Path) -> None:
    """Write the picture to a file."""
    path.write_text("\n".join(_Picture(summary).parts()) + "\n")


class _Picture:
    def __init__(self, summary: DemoSummary) -> None:
        self._summary = summary
        self._story = summary.story
        self._times = summary.story.finish_times(summary.jobs)
        self._slices = int(summary.seconds / SLICE_S) + 1
        self._seconds = self._slices * SLICE_S
        self._top = max(self._stacked()[-1], default=1.0) or 1.0

    def parts(self) -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" '
            'font-size="13">'
        )
        yield (
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8" '
            'fill="#ffffff" stroke="#d0d7de"/>'
        )
        yield from self._heading()
        yield from self._grid()
        yield from self._areas()
        yield from self._event_lines()
        yield from self._worker_rows()
        yield _text(
            LEFT,
            HEIGHT - 20,
            "A job that has lost its worker runs alone at its next attempt, in case it is the "
            "guilty one: hence the dips.",
            colour=FAINT,
        )
        yield "</svg>"

    # Coordinates

    def _x(self, seconds: float) -> float:
        return LEFT + (RIGHT - LEFT) * min(max(seconds, 0.0) / self._seconds, 1.0)

    def _y(self, rate: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * rate / self._top

    def _stacked(self) -> list[list[float]]:
        """Return, for each task, the height of the upper edge of its stacked area in each slice."""
        edge = [0.0] * self._slices
        edges = []
        for task in COLOURS:
            for at in self._times.get(task, ()):
                edge[min(max(int(at / SLICE_S), 0), self._slices - 1)] += 1 / SLICE_S
            edges.append(list(edge))
        return edges

    # Parts of the picture

    def _heading(self) -> Iterator[str]:
        counts = self._summary.as_dict()
        yield _text(
            24,
            30,
            f"{counts['enqueued']:,} jobs, {WORKERS} worker processes, one of them killed: "
            f"{counts['ended']:,} ended, {counts['lost']} lost",
            size=17,
            weight=600,
        )
        x = 24.0
        for task, colour in COLOURS.items():
            number = len(self._times.get(task, ()))
            label = f"{task} {number:,}"
            yield f'<rect x="{x:.0f}" y="45" width="11" height="11" rx="2" fill="{colour}"/>'
            yield _text(x + 16, 55, label, colour=INK)
            x += 34 + 7.2 * len(label)

    def _grid(self) -> Iterator[str]:
        step = _round_step(self._top / 4)
        for number in range(int(self._top / step) + 1):
            y = self._y(number * step)
            yield f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#eaeef2"/>'
            yield _text(LEFT - 8, y + 4, f"{number * step:,.0f}", colour=FAINT, anchor="end")
        yield _text(LEFT - 8, TOP - 14, "jobs/s", colour=FAINT, anchor="end")
        step = _round_step(self._seconds / 8)
        for number in range(int(self._seconds / step) + 1):
            label = f"{number * step:g} s"
            yield _text(self._x(number * step), BOTTOM + 18, label, colour=FAINT, anchor="middle")

    def _areas(self) -> Iterator[str]:
        below = [0.0] * self._slices
        for colour, edge in zip(COLOURS.values(), self._stacked(), strict=True):
            upper = list(self._steps(edge))
            lower = list(self._steps(below))[::-1]
            yield f'<path d="M{"L".join(upper + lower)}Z" fill="{colour}"/>'
            below = edge

    def _steps(self, edge: list[float]) -> Iterator[str]:
        for number, rate in enumerate(edge):
            for at in (number * SLICE_S, (number + 1) * SLICE_S):
                yield f"{self._x(at):.1f} {self._y(rate):.1f}"

    def _event_lines(self) -> Iterator[str]:
        bottom = ROWS_TOP + ROW_HEIGHT * WORKERS
        story = self._story
        if story.killed_at is not None:
            yield _line(self._x(story.killed_at), TOP - 24, bottom, KILLED)
            yield _text(
                self._x(story.killed_at) - 6,
                TOP - 14,
                f"killed at {story.killed_at:.1f} s",
                colour=KILLED,
                weight=600,
                anchor="end",
            )
        if story.rescued_at is not None:
            yield _line(self._x(story.rescued_at), TOP - 24, bottom, RESCUED)
            yield _text(
                self._x(story.rescued_at) + 6,
                TOP - 14,
                f"its {self._summary.rescued} jobs rescued "
                f"after {self._summary.rescued_after:.1f} s",
                colour=RESCUED,
                weight=600,
            )

    def _worker_rows(self) -> Iterator[str]:
        for number in range(1, WORKERS + 1):
            y = ROWS_TOP + ROW_HEIGHT * (number - 1)
            yield _text(LEFT - 8, y + 12, f"worker {number}", colour=FAINT, anchor="end")
        for span in self._story.spans:
            y = ROWS_TOP + ROW_HEIGHT * (span.number - 1)
            end = self._seconds if span.ended is None else span.ended
            left, right = self._x(span.began), self._x(end)
            yield (
                f'<rect x="{left:.1f}" y="{y + 3}" width="{max(right - left, 2):.1f}" height="12" '
                f'rx="3" fill="#c8d1da"/>'
            )
            if span.killed:
                yield _text(right, y + 15, "✗", colour=KILLED, size=18, anchor="middle", weight=700)


def _line(x: float, top: float, bottom: float, colour: str) -> str:
    return (
        f'<path d="M{x:.1f} {top}V{bottom}" stroke="{colour}" stroke-width="1.5" '
        'stroke-dasharray="5 3"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    colour: str = INK,
    size: int = 13,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" '
        f'font-weight="{weight}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _round_step(least: float) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten that is at least this long."""
    power = 1.0
    while power * 10 <= least:
        power *= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least)
