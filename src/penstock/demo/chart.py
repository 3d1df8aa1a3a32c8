"""Throughput drawn with characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as one line of blocks."""
    shown = list(values)[-width:]
    top = max(shown, default=0.0) or 1.0
    return "".join(BLOCKS[_eighths(value, top, 8)] for value in shown)


def plot(values: Sequence[float], seconds: float, marks: Mapping[float, str], height: int) -> str:
    """Columns over time with a scale at the left; a mark is a sign under its second."""
    top = max(values, default=0.0) or 1.0
    rows = []
    for row in range(height, 0, -1):
        scale = f"{top:>7,.0f}/s" if row == height else " " * 9
        rows.append(f"{scale} │{''.join(_cell(value, top, row, height) for value in values)}")
    rows.append(f"{'0':>9} └{'─' * len(values)}")
    signs = [" "] * len(values)
    for at, sign in marks.items():
        signs[min(int(at / seconds), len(signs) - 1)] = sign
    rows.append(f"{'':>11}{''.join(signs)}".rstrip())
    end = f"{len(values) * seconds:.0f} s"
    rows.append(f"{'':>11}0 s{end:>{max(len(values) - 3, 4)}}")
    return "\n".join(rows)


def _cell(value: float, top: float, row: int, height: int) -> str:
    filled = _eighths(value, top, height * 8) - (row - 1) * 8
    return BLOCKS[max(0, min(8, filled))]


def _eighths(value: float, top: float, full: int) -> int:
    """How much of a column is filled; the least job shows."""
    return max(1, round(value / top * full)) if value > 0 else 0
