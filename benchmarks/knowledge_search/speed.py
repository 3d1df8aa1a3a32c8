"""How long a search takes, beside the bare scan of an index of all vectors."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

from benchmarks.knowledge_search.stock import TENANT, Stock
from penstock_apps.knowledge.search import Mode
from penstock_apps.knowledge.store.tables import Connection

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

    ways = {
        "bare scan": scan,
        "vector": search("vector"),
        "words": search("words"),
        "hybrid": search("hybrid"),
    }
    result = await _timed(stock, questions, ways)
    scanned = dict(result["bare scan"])
    for times in result.values():
        times |= {f"{name} / bare scan": round(times[name] / scanned[name], 2) for name in scanned}
    return result


async def _timed(
    stock: Stock, questions: Sequence[str], ways: dict[str, Asked]
) -> dict[str, dict[str, float]]:
    """By the clock, and by the server's processor, which others on the machine disturb less.

    Every question is asked in every way before the next one: what disturbs one disturbs all.
    """
    clock: dict[str, list[float]] = {way: [] for way in ways}
    processor: dict[str, list[float]] = {way: [] for way in ways}
    async with stock.tables.transaction(TENANT) as on:
        await on.execute(SEARCHED)
        backend = await on.fetchval("SELECT pg_backend_pid()")
        for number, question in enumerate([*questions[:WARM], *questions]):
            for way, ask in ways.items():
                start, used = time.perf_counter(), _used(backend)
                await ask(on, question)
                if number >= WARM:
                    processor[way].append(_used(backend) - used)
                    clock[way].append((time.perf_counter() - start) * 1000)
    return {way: _cuts(clock[way]) | _cuts(processor[way], "cpu ") for way in ways}


def _used(process: int) -> float:
    """Milliseconds that it has run on a processor."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1_000_000


def _cuts(times: Sequence[float], kind: str = "") -> dict[str, float]:
    cuts = quantiles(times, n=100)
    return {f"{kind}p50": round(cuts[49], 2), f"{kind}p95": round(cuts[94], 2)}
