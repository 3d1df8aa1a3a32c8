"""How long a search takes, beside the scan of the vector index that is a part of it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import quantiles
from typing import Any, Final

import psutil

from benchmarks.knowledge_search.stock import TENANT, Stock
from penstock_apps.knowledge.search import Mode
from penstock_apps.knowledge.store.shelves import Connection

BARE = (
    "SELECT id FROM {schema}.chunk WHERE vector_dims(embedding) = {dimensions}"
    " ORDER BY embedding::halfvec({dimensions}) <=> $1::real[]::halfvec({dimensions}) LIMIT 10"
)
WARM: Final = 20
# As in search_index_v1.sql: fewer find fewer of the true neighbours.
SEARCHED = "SET LOCAL hnsw.ef_search = 400"

Asked = Callable[[Connection, str], Awaitable[Any]]


async def measure(stock: Stock, edition: int, questions: Sequence[str]) -> dict[str, Any]:
    """Milliseconds of a search in one edition, and of the bare scan over all chunks."""
    bare = BARE.format(schema=stock.schema, dimensions=stock.model.dimensions)

    async def scan(on: Connection, question: str) -> None:
        await on.fetch(bare, stock.model.vectors([question])[0])

    def search(mode: Mode) -> Asked:
        return lambda on, question: stock.ask(on, [edition], question, 10, mode)

    result = {
        "bare scan": await _timed(stock, questions, scan),
        "hybrid": await _timed(stock, questions, search("hybrid")),
        "vector": await _timed(stock, questions, search("vector")),
        "words": await _timed(stock, questions, search("words")),
    }
    bare_scan, hybrid = result["bare scan"], result["hybrid"]
    times = {name: round(hybrid[name] / bare_scan[name], 2) for name in hybrid}
    return result | {"hybrid / bare scan": times}


async def _timed(stock: Stock, questions: Sequence[str], ask: Asked) -> dict[str, float]:
    """Of the clock, and of the server's processor, which others on the machine disturb less."""
    times = []
    async with stock.shelves.of(TENANT) as on:
        await on.execute(SEARCHED)
        backend = psutil.Process(await on.fetchval("SELECT pg_backend_pid()"))
        for question in questions[:WARM]:
            await ask(on, question)
        before = backend.cpu_times()
        for question in questions:
            start = time.perf_counter()
            await ask(on, question)
            times.append((time.perf_counter() - start) * 1000)
        after = backend.cpu_times()
    cuts = quantiles(times, n=100)
    used = after.user + after.system - before.user - before.system
    return {
        "p50": round(cuts[49], 2),
        "p95": round(cuts[94], 2),
        "cpu": round(used * 1000 / len(questions), 2),
    }
