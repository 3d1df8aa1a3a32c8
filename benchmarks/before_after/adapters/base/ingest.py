"""`penstock ingest`, as anybody would run it, beside a worker, with the model that comes along."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from benchmarks.before_after.adapters.base.queue import FACTS, Queue
from benchmarks.before_after.runner.answer import answer
from benchmarks.before_after.runner.marks import Marks, mark
from benchmarks.peers.peer import Settings
from benchmarks.peers.runs import Runs
from penstock import Penstock, task
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.embed.wordllama import WordLlama

CALL = "PENSTOCK_BENCH_CALL"
CHILDREN = 4
OWN_QUEUE = "bench"


@task(name="bench.call", queue=OWN_QUEUE, isolate=True)
async def call() -> None:
    """Nobody enqueues it: because of it child processes import this module, and mark calls."""


class Ingest(Queue):
    FACTS = replace(FACTS, extensions=("vector",))

    async def arrange(self, app: Penstock) -> None:
        await Knowledge(app).migrate(app.database)

    @asynccontextmanager
    async def worker(self, url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
        """Take a folder in; the answer is what came of it."""
        os.environ["PENSTOCK_KNOWLEDGE_STORAGE"] = settings["storage"]
        with Marks(CALL) as calls:
            app = Penstock(url, include=[call])
            queues = {**Knowledge(app).queues(CHILDREN), OWN_QUEUE: 1}
            async with app, app.worker(queues, children=CHILDREN):
                found = await _command("ingest", settings["folder"], "--database-url", url)
                answer(settings, {**found, "embed_calls": calls.count})
                runs.note(0)
                yield


async def _command(*words: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "penstock.cli", *words, "--no-work", "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"penstock {words[0]} ended with {process.returncode}.")
    return json.loads(said)


def _mark_calls() -> None:
    embed = WordLlama.embed

    async def marked(model: WordLlama, texts: Sequence[str]) -> Any:
        mark(CALL)
        return await embed(model, texts)

    WordLlama.embed = marked  # type: ignore[assignment, method-assign]


if CALL in os.environ:
    _mark_calls()

PEER = Ingest()
