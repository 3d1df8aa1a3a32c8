"""Whether the file that has the answer is among the first, for questions written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from benchmarks.knowledge_search.stock import TENANT, Stock
from penstock_apps.knowledge.search import Mode

MODES: Final[tuple[Mode, ...]] = ("hybrid", "vector", "words")
PACKAGE, PATTERN = "postgresql-doc-15", "postgresql-doc-15/html/*.html"
QUESTIONS: Final = json.loads(Path(__file__).with_name("questions.json").read_text("utf-8"))


async def measure(stock: Stock, edition: int) -> dict[str, Any]:
    """The share of questions whose answer is first, among three, five and ten hits, by mode."""
    result: dict[str, Any] = {"questions": len(QUESTIONS)}
    for mode in MODES:
        places = [await _place(stock, edition, asked, mode) for asked in QUESTIONS]
        found = {f"hit@{n}": _share(places, n) for n in (1, 3, 5, 10)}
        missed = [asked["question"] for asked, at in zip(QUESTIONS, places, strict=True) if at > 5]
        result[mode] = found | {"missed": missed}
    return result


async def _place(stock: Stock, edition: int, asked: dict[str, Any], mode: Mode) -> int:
    """At which hit an answer is; far away if at none."""
    async with stock.shelves.of(TENANT) as on:
        hits = await stock.ask(on, [edition], asked["question"], 10, mode)
    places = (n for n, hit in enumerate(hits, 1) if Path(hit.path).name in asked["answers"])
    return next(places, 1000)


def _share(places: list[int], most: int) -> float:
    return round(sum(place <= most for place in places) / len(places), 3)
