"""`python -m benchmarks.knowledge_search --help`."""

from __future__ import annotations

import asyncio
import json
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
from benchmarks.knowledge_search.stock import Stock, opened
from penstock.bench.server import machine
from penstock_apps.knowledge.text import Piece

MANUAL, OTHERS, TENANT = 1, 2, 3
EDITIONS: Final = 3
# Besides the manual that is asked about.
MORE, FILES = "linux-doc-6.1", "linux-doc-6.1/html/**/*.html"
FILES_OF_A_TENANT: Final = 20  # one in so many is another tenant's
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
    Console().print(result)


async def measure(number: int) -> dict[str, Any]:
    async with opened(str(FOLDER / "knowledge")) as stock:
        asked: list[str] = []
        chunks = await stock.fill(EDITIONS, _documents(asked))
        sample = random.Random(8).sample(sorted(set(asked)), number)
        return {
            "machine": machine(),
            "chunks": chunks,
            "chunks by edition": await _sizes(stock),
            "quality": await quality.measure(stock, MANUAL),
            "recall, one file in twenty": await recall.measure(stock, TENANT, sample),
            "recall, most files": await recall.measure(stock, OTHERS, sample),
            "speed, one file in twenty": await speed.measure(stock, TENANT, sample),
            "speed, most files": await speed.measure(stock, OTHERS, sample),
        }


def _documents(asked: list[str]) -> Iterator[tuple[int, str, list[Piece]]]:
    """With the edition of each. What is asked later is a sentence of each, which is left there."""
    for path, pieces in read(unpacked(quality.PACKAGE), quality.PATTERN):
        yield MANUAL, path, pieces
    for number, (path, pieces) in enumerate(read(unpacked(MORE), FILES)):
        asked.append(" ".join(WORDS.findall(pieces[len(pieces) // 2].text)[:WORDS_ASKED]))
        yield TENANT if number % FILES_OF_A_TENANT == 0 else OTHERS, path, pieces


async def _sizes(stock: Stock) -> dict[str, int]:
    async with stock.shelves.of_all() as on:
        rows = await on.fetch(
            f"SELECT edition, count(*) AS chunks FROM {stock.schema}.chunk GROUP BY 1 ORDER BY 1"
        )
    return {str(row["edition"]): row["chunks"] for row in rows}


if __name__ == "__main__":
    typer.run(main)
