"""`python -m benchmarks.listeners --help`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console

from benchmarks.comparison.environment import FOLDER as BENCH
from benchmarks.comparison.environment import ROOT
from benchmarks.listeners.crowd import Ear, gather
from penstock.bench import tasks
from penstock.bench.sandbox import Sandbox, SandboxServer, machine, open_sandbox
from penstock.config import Database
from penstock.worker.processes import run

FOLDER = str(BENCH / "postgres")
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
BATCH_LISTENERS = 5  # at each server
# The statistics of a session are told a second after it is idle, at the latest.
TOLD = 1.1


def main(
    listeners: Annotated[int, typer.Option(help="How many listen, each to a job.")] = 1000,
    seconds: Annotated[float, typer.Option(help="How long nothing happens.")] = 30.0,
    jobs: Annotated[int, typer.Option(help="How many jobs the batch has; 0: none.")] = 100_000,
    output: Annotated[
        Path | None, typer.Option("--json", help="Write one JSON document to this file.")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="A server of your own.", show_default=False)
    ] = None,
) -> None:
    """Let many listen: to idle jobs on one server, and to a large batch on two."""
    database = Database.of(database_url, data_dir=None if database_url else FOLDER)
    result = run(measure(listeners, seconds, jobs, database))
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    Console().print(result)


async def measure(listeners: int, seconds: float, jobs: int, database: Database) -> dict[str, Any]:
    """What listeners cost, how soon they hear, and how often of a batch."""
    before = machine()
    async with open_sandbox(database) as sandbox:
        idle = await _listen(sandbox, listeners, seconds)
        batch = await _batch(sandbox, jobs) if jobs else None
        server = await SandboxServer.of(sandbox.connection)
    return {**idle, "batch": batch, "machine": before, "server": server.as_dict()}


async def _listen(sandbox: Sandbox, listeners: int, seconds: float) -> dict[str, Any]:
    """Many on one server, each to a job that waits and then ends."""
    jobs = await sandbox.app.enqueue_many(tasks.noop.prepare(n) for n in range(listeners))
    ids = [job.id for job in jobs]
    async with _server(sandbox) as (process, port):
        empty = process.memory_info().rss
        began = time.monotonic()
        ears = await gather(port, [f"job/{id}" for id in ids])
        connected = time.monotonic() - began
        idle = await _idle(sandbox, process, seconds)
        full = process.memory_info().rss
        ended = await _end(sandbox, ears, ids)
    return {
        "listeners": listeners,
        "connected_s": round(connected, 2),
        "memory_mib": {"empty": _mib(empty), "full": _mib(full)},
        "memory_kib_a_listener": round((full - empty) / listeners / 1024, 1),
        "idle": idle,
        "ended": ended,
    }


async def _batch(sandbox: Sandbox, jobs: int) -> dict[str, Any]:
    """A batch that is enqueued and worked off while some listen at two servers."""
    sandbox.app.include(tasks.noop)
    async with _server(sandbox) as (_, one), _server(sandbox) as (_, two):
        batch = await sandbox.app.open_batch()
        subjects = [f"batch/{batch.id}"] * BATCH_LISTENERS
        ears = [*await gather(one, subjects), *await gather(two, subjects)]
        began = time.monotonic()
        await batch.enqueue_many(tasks.noop.prepare(number) for number in range(jobs))
        await batch.close()
        async with sandbox.app.worker({"default": 100}):
            await asyncio.gather(*(ear.end() for ear in ears))
        took = time.monotonic() - began
    return {
        "jobs": jobs,
        "seconds": round(took, 1),
        "events_a_second_at_most": round(max(ear.events for ear in ears) / took, 2),
        "one_end_each": all(len(ear.ended) == 1 for ear in ears),
        "same_end": len({ear.last for ear in ears}) == 1,
    }


async def _idle(sandbox: Sandbox, process: psutil.Process, seconds: float) -> dict[str, float]:
    """How busy the server is, and what it asks the database, while nothing happens."""
    await asyncio.sleep(TOLD)  # or what they asked when they came would count as well
    commits = await sandbox.connection.fetchval(COMMITS)
    used, began = sum(process.cpu_times()[:2]), time.monotonic()
    await asyncio.sleep(seconds)
    took, busy = time.monotonic() - began, sum(process.cpu_times()[:2]) - used
    await asyncio.sleep(TOLD)
    asked = await sandbox.connection.fetchval(COMMITS) - commits
    return {
        "seconds": round(took, 1),
        "processor_percent": round(100 * busy / took, 1),
        "transactions_a_second": round(asked / (took + TOLD), 1),
    }


async def _end(sandbox: Sandbox, ears: list[Ear], ids: list[str]) -> dict[str, Any]:
    """End all jobs at once; after how long the end was heard."""
    for start in range(0, len(ids), 1000):
        await sandbox.app.cancel_many(ids[start : start + 1000])
    at = time.monotonic()
    await asyncio.gather(*(ear.end() for ear in ears))
    delays = sorted(ear.ended[0] - at for ear in ears)
    return {
        "one_end_each": all(len(ear.ended) == 1 for ear in ears),
        "events": sum(ear.events for ear in ears),
        "heard_after_s": {
            "p50": round(delays[len(delays) // 2], 3),
            "p99": round(delays[int(len(delays) * 0.99)], 3),
            "max": round(delays[-1], 3),
        },
    }


@asynccontextmanager
async def _server(sandbox: Sandbox) -> AsyncIterator[tuple[psutil.Process, int]]:
    server: Process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.listeners.server", sandbox.url, sandbox.schema,
        stdout=PIPE, cwd=ROOT,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        port = int(await server.stdout.readline())
        yield psutil.Process(server.pid), port
    finally:
        server.terminate()
        await server.wait()


def _mib(size: int) -> float:
    return round(size / 2**20, 1)


if __name__ == "__main__":
    typer.run(main)
