"""A process of a side that does something else than working off a queue."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.comparison.environment import ROOT
from benchmarks.comparison.orders import Orders
from benchmarks.comparison.postgres import Database
from benchmarks.comparison.rounds import Lane
from penstock.bench.child import BenchFailed, Child, start_children

LONGEST = 1800.0


@asynccontextmanager
async def answering(
    lane: Lane, database: Database, **settings: Any
) -> AsyncIterator[tuple[Child, dict[str, Any]]]:
    """The process once it has told what it was started for, and that: a document."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        answer = Path(folder) / "answer"
        orders = Orders(database.url, settings={**settings, "answer": str(answer)})
        async with start_children(lane.entrant.command("work"), orders, folder=ROOT) as [child]:
            await child.go()
            await child.wait_until_settled(1, within=LONGEST)
            if not answer.exists():
                raise BenchFailed(
                    "A benchmark process ended too early. Its own output above says why."
                )
            yield child, json.loads(answer.read_text())
