"""The measurement as a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

HEAD = ("", "items", "calls", "calls ÷ ideal", "items a call", "waits, median", "waits, 95 %")
NAMES = {
    "backlog": "a backlog",
    "slow": "200 a second",
    "slow_alone": "200 a second, a call each",
    "fast": "2,000 a second",
    "fast_alone": "2,000 a second, a call each",
}


def rows(document: Mapping[str, Any]) -> list[list[str]]:
    return [_row(NAMES[name], load) for name, load in document["loads"].items()]


def _row(name: str, load: Mapping[str, Any]) -> list[str]:
    waits = load["wait_ms"]
    return [
        name,
        f"{load['items']:,}",
        f"{load['calls']:,}",
        f"{load['calls'] / load['ideal']:.2f}",
        f"{load['items'] / load['calls']:.1f}",
        *("" if waits is None else f"{waits[cut]:.1f} ms" for cut in ("p50", "p95")),
    ]


def table(document: Mapping[str, Any]) -> Table:
    batch = document["batch"]
    made = Table(title=f"Calls of up to {batch['size']} items, linger {batch['linger']:g} s")
    for title in HEAD:
        made.add_column(title, justify="right" if title else "left")
    for row in rows(document):
        made.add_row(*row)
    return made
