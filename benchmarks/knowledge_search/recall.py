"""How many of the true neighbours are found, by the index that all tenants share and by search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.knowledge_search.stock import TENANT, Stock
from penstock_apps.knowledge.search import Group, Query, Searching
from penstock_apps.knowledge.store.shelves import Connection

K: Final = 10
TRUE = "SELECT chunk FROM {schema}.search_exact_v1($1, $2, NULL, $3::real[]::halfvec, NULL, $4)"
INDEX = "SELECT chunk FROM {schema}.search_index_v1($1, $2, $3::real[]::halfvec, NULL, 60)"


async def measure(stock: Stock, edition: int, questions: Sequence[str]) -> dict[str, Any]:
    """Recall of the ten nearest, averaged over the questions; and whether all ten were there."""
    search, index, short = 0.0, 0.0, 0
    for question in questions:
        vector = stock.model.vectors([question])[0]
        async with stock.shelves.of(TENANT) as on:
            true = await _chunks(on, TRUE.format(schema=stock.schema), edition, vector, K)
            near = await _chunks(on, INDEX.format(schema=stock.schema), edition, vector)
            hits = await Searching(stock.shelves).search(
                on, TENANT, [Group((edition,), vector)], Query(question, K, mode="vector")
            )
        index += len(set(true) & set(near[:K])) / len(true)
        search += len(set(true) & {hit.chunk for hit in hits}) / len(true)
        short += len(hits) < K
    return {
        "questions": len(questions),
        "recall@10 of search": round(search / len(questions), 4),
        "recall@10 of its index alone": round(index / len(questions), 4),
        "fewer than 10 hits": short,
    }


async def _chunks(on: Connection, sql: str, edition: int, vector: Any, *more: int) -> list[int]:
    return [row["chunk"] for row in await on.fetch(sql, TENANT, [edition], vector, *more)]
