"""Whether the page that has the answer is among the first, for questions written by hand."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.knowledge_search.manuals import MANUALS, TUNED, Manual, Question
from benchmarks.knowledge_search.stock import TENANT, Stock
from penstock_apps.knowledge.search import Mode

MODES: Final[tuple[Mode, ...]] = ("hybrid", "vector", "words")
FAR_AWAY: Final = 1000

Places = dict[Mode, list[int]]


async def measure(stock: Stock) -> dict[str, Any]:
    """The share of questions whose answer is first, among three, five and ten hits, by mode."""
    result, every, held_out = {}, _nothing(), _nothing()
    for manual in MANUALS:
        places = {mode: await _places(stock, manual, mode) for mode in MODES}
        result[manual.name] = _shares(places) | {"missed": _missed(manual, places)}
        for mode in MODES:
            every[mode] += places[mode]
            held_out[mode] += places[mode] if manual is not TUNED else []
    return result | {"held out": _shares(held_out), "all": _shares(every)}


def _nothing() -> Places:
    return {mode: [] for mode in MODES}


async def _places(stock: Stock, manual: Manual, mode: Mode) -> list[int]:
    return [await _place(stock, manual, question, mode) for question in manual.questions]


async def _place(stock: Stock, manual: Manual, asked: Question, mode: Mode) -> int:
    """At which hit an answer is; far away if at none."""
    async with stock.tables.transaction(TENANT) as on:
        hits = await stock.ask(on, manual.editions, asked.question, 10, mode)
    places = (n for n, hit in enumerate(hits, 1) if asked.is_answered_by(hit.path))
    return next(places, FAR_AWAY)


def _shares(places: Places) -> dict[str, Any]:
    shares: dict[str, Any] = {"questions": len(places["hybrid"])}
    for mode in MODES:
        shares[mode] = {f"hit@{most}": _share(places[mode], most) for most in (1, 3, 5, 10)}
    return shares


def _share(places: list[int], most: int) -> float:
    return round(sum(place <= most for place in places) / len(places), 3)


def _missed(manual: Manual, places: Places) -> list[str]:
    """What hybrid search has no answer to among five hits."""
    asked = zip(manual.questions, places["hybrid"], strict=True)
    return [each.question for each, place in asked if place > 5]
