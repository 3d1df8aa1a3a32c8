"""Enqueue over HTTP with the database and without, in turns: `python -m benchmarks.http --help`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import typer

from benchmarks.comparison.postgres import server
from benchmarks.http.load import Seen, load
from penstock.bench.sandbox import machine
from penstock.migrate import migrate
from penstock.worker.processes import run

OVERLOAD = 10
# Clients that wait for a second need some to do so in.
OVERLOADS, OVERLOAD_TURNS = 3, 4
# What a client does that is told to come again in a second: it does, or it does not listen.
PATIENT, RUDE = 1.0, 0.01


def main(
    connections: Annotated[int, typer.Option(help="How many clients ask at once.")] = 64,
    seconds: Annotated[float, typer.Option(help="How long each turn takes.")] = 1.0,
    rounds: Annotated[int, typer.Option(help="How many turns; the medians are shown.")] = 15,
    database_url: Annotated[
        str | None, typer.Option(help="A server of your own.", show_default=False)
    ] = None,
) -> None:
    """Measure what the database costs, and ten times the load."""
    typer.echo(json.dumps(run(_on_a_server(connections, seconds, rounds, database_url)), indent=1))


async def _on_a_server(
    connections: int, seconds: float, rounds: int, given: str | None
) -> dict[str, Any]:
    async with server(given) as postgres, postgres.database("http") as database:
        await migrate(database.url)
        return await measure(database.url, connections, seconds, rounds)


async def measure(url: str, connections: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Both servers in turns, then the one that stores under ten times as many clients."""
    before, many = machine(), connections * OVERLOAD
    async with _serving(url, "stored") as stored, _serving(url, "bare") as bare:
        for each in (stored, bare):
            await load(each.port, connections, seconds / 4)
        turns = []
        for _ in range(rounds):
            without = await load(bare.port, connections, seconds)
            turns.append((without, await load(stored.port, connections, seconds)))
        patient, rude = [
            [
                await load(stored.port, many, seconds * OVERLOAD_TURNS, patience=patience)
                for _ in range(min(OVERLOADS, rounds))
            ]
            for patience in (PATIENT, RUDE)
        ]
        return {
            "machine": before,
            "clients": connections,
            "without_database": _told([one for one, _ in turns]),
            "stored": _told([other for _, other in turns]),
            "share": round(median(other.rate / one.rate for one, other in turns), 2),
            "ten_times_that_wait_when_told": _told(patient),
            "ten_times_that_do_not": _told(rude),
            "memory_mib": round(_memory(stored.process)),
        }


class Serving(NamedTuple):
    """Where a server listens, and its process."""

    port: int
    process: int


@asynccontextmanager
async def _serving(url: str, how: str) -> AsyncIterator[Serving]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.http.serve", url, how), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield Serving(int(await process.stdout.readline()), process.pid)
    finally:
        process.terminate()
        await process.wait()


def _told(seen: list[Seen]) -> dict[str, float]:
    return {
        "jobs_a_second": round(median(one.rate for one in seen)),
        "refused_a_second": round(median(one.statuses[503] / one.seconds for one in seen)),
        "others": sum(sum(one.statuses.values()) - one.expected for one in seen),
        "p50_ms": round(1000 * median(one.quantile(0.5) for one in seen), 1),
        "p99_ms": round(1000 * median(one.quantile(0.99) for one in seen), 1),
    }


def _memory(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    typer.run(main)
