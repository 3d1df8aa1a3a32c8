"""The measurement as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.table import Table

QUALITY: Final = ("questions about", "number", "both", "by meaning", "by words")
RECALL: Final = ("edition", "chunks", "recall@10")
SPEED: Final = ("edition", "", "p50", "p95", "÷ bare scan", "CPU p50", "CPU p95", "÷ bare scan")
SETS: Final = {
    "postgres": "Postgres (tuned on)",
    "python": "Python",
    "linux": "Linux",
    "held out": "the last two",
    "all": "**all**",
}
EDITIONS: Final = {"small edition": "3", "large edition": "2"}

Document = Mapping[str, Any]


def quality(run: Document) -> list[list[str]]:
    """The share of questions whose answer is among the first five hits."""
    return [
        [
            title,
            f"{found['questions']}",
            *(f"{found[mode]['hit@5']:.3f}" for mode in ("hybrid", "vector", "words")),
        ]
        for title, found in ((title, run["quality"][name]) for name, title in SETS.items())
    ]


def recall(run: Document) -> list[list[str]]:
    return [
        [name, f"{run['chunks by edition'][edition]:,}", f"{run['recall'][name]['recall@10']:.3f}"]
        for name, edition in EDITIONS.items()
    ]


def speed(run: Document) -> list[list[str]]:
    return [
        [
            name,
            f"**{way}**" if way == "hybrid" else way,
            *_times(times, ""),
            *_times(times, "cpu "),
        ]
        for name in EDITIONS
        for way, times in run["speed"][name].items()
    ]


def _times(times: Mapping[str, float], kind: str) -> list[str]:
    """At the median and at 95 %, and how many bare scans that is at 95 %."""
    ratio = times[f"{kind}p95 / bare scan"]
    return [f"{times[f'{kind}p50']:.1f} ms", f"{times[f'{kind}p95']:.1f} ms", f"{ratio:.2f}"]


def tables(run: Document) -> Iterator[Table]:
    parts = (("Answers among five hits", QUALITY, quality), ("Neighbours found", RECALL, recall))
    for title, head, rows in (*parts, ("Time of a search", SPEED, speed)):
        made = Table(title=title)
        for name in head:
            made.add_column(name, justify="left" if name in ("", head[0]) else "right")
        for row in rows(run):
            made.add_row(*(cell.strip("*") for cell in row))
        yield made
