"""Jobs in child processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.before_after.adapters.base.queue import Queue
from benchmarks.before_after.runner.marks import Marks, mark
from benchmarks.peers.peer import Settings
from benchmarks.peers.runs import Runs
from penstock import Penstock, task

RUN = "PENSTOCK_BENCH_RUN"


@task(name="bench.isolated", isolate=True)
async def isolated(number: int) -> None:
    mark(RUN)


class Isolated(Queue):
    task = isolated

    @asynccontextmanager
    async def worker(self, url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
        with Marks(RUN) as marks:
            app = Penstock(url, include=[isolated])
            async with app, app.worker(), marks.noted_in(runs):
                yield


PEER = Isolated()
