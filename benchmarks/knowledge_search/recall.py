"""How many of the true neighbours search finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.knowledge_search.stock import TENANT, Stock

K: Final = 10
TRUE = "SELECT chunk FROM {schema}.search_exact_v1($1, $2, NULL, $3::real[]::halfvec, NULL, $4)"


async def measure(stock: Stock, edition: int, questions: Sequence[str]) -> dict[str, Any]:
    """Recall of the ten nearest, averaged over the questions; and whether all ten were there."""
    recall, short = 0.0, 0
    for question in questions:
        vector = stock.model.vectors([question])[0]
        async with stock.tables.transaction(TENANT) as on:
            rows = await on.fetch(TRUE.format(schema=stock.schema), TENANT, [edition], vector, K)
            hits = await stock.ask(on, [edition], question, K, "vector")
        true = {row["chunk"] for row in rows}
        recall += len(true & {hit.chunk for hit in hits}) / len(true)
        short += len(hits) < K
    return {
        "questions": len(questions),
        "recall@10": round(recall / len(questions), 4),
        "fewer than 10 hits": short,
    }
