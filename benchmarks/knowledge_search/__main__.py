"""`python -m benchmarks.knowledge_search --help`."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from benchmarks.comparison.environment import FOLDER
from benchmarks.knowledge_search import quality, recall, speed
from benchmarks.knowledge_search.documents import read, unpacked
from benchmarks.knowledge_search.manuals import EDITIONS, KERNEL, LINUX, MANUALS, TENANT
from benchmarks.knowledge_search.stock import Stock, opened
from benchmarks.knowledge_search.table import tables
from penstock.bench.sandbox import SandboxServer, machine
from penstock_apps.knowledge.text import Piece

FILES_OF_A_TENANT: Final = 20  # one in so many of the kernel's is another tenant's
WORDS, WORDS_ASKED = re.compile(r"[A-Za-z]+"), 8


def main(
    questions: Annotated[int, typer.Option(help="How many are asked for speed and recall.")] = 300,
    output: Annotated[
        Path | None, typer.Option("--json", help="Write one JSON document to this file.")
    ] = None,
) -> None:
    """Measure hits on questions written by hand, recall under a filter, and speed."""
    result = asyncio.run(measure(questions))
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    for table in tables(result):
        Console().print(table)


async def measure(number: int) -> dict[str, Any]:
    async with opened(str(FOLDER / "knowledge")) as stock:
        here = machine()
        asked: list[str] = []
        chunks = await stock.fill(EDITIONS, _documents(asked))
        sample = random.Random(8).sample(sorted(set(asked)), number)
        facts = {
            "chunks": chunks,
            "chunks by edition": await _sizes(stock),
            "quality": await quality.measure(stock),
            "recall": {
                "small edition": await recall.measure(stock, TENANT, sample),
                "large edition": await recall.measure(stock, LINUX, sample),
            },
        }
        await stock.index_all()
        # Of the others on the machine: ours has ended.
        here["load_before"] = round(os.getloadavg()[0], 2)
        facts["speed"] = {
            "small edition": await speed.measure(stock, TENANT, sample),
            "large edition": await speed.measure(stock, LINUX, sample),
        }
        return {"machine": here, **await _server(stock), **facts}


def _documents(asked: list[str]) -> Iterator[tuple[int, str, list[Piece]]]:
    """With the edition of each. What is asked later is a sentence of each, which is left there."""
    for manual in MANUALS:
        for number, (path, pieces) in enumerate(read(unpacked(manual.package), manual.pages)):
            if manual is KERNEL:
                asked.append(" ".join(WORDS.findall(pieces[len(pieces) // 2].text)[:WORDS_ASKED]))
                yield TENANT if number % FILES_OF_A_TENANT == 0 else LINUX, path, pieces
            else:
                yield manual.editions[0], path, pieces


async def _server(stock: Stock) -> dict[str, Any]:
    async with stock.tables.transaction_of_all() as on:
        connection: Any = on  # A pool's, which does the same.
        memory = await on.fetchval("SHOW shared_buffers")
        return (await SandboxServer.of(connection)).as_dict() | {"shared_buffers": memory}


async def _sizes(stock: Stock) -> dict[str, int]:
    async with stock.tables.transaction_of_all() as on:
        rows = await on.fetch(
            f"SELECT edition, count(*) AS chunks FROM {stock.schema}.chunk GROUP BY 1 ORDER BY 1"
        )
    return {str(row["edition"]): row["chunks"] for row in rows}


if __name__ == "__main__":
    typer.run(main)
