"""Enqueue over HTTP with the database and without, in turns: `python -m benchmarks.http --help`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from benchmarks.comparison.postgres import server
from benchmarks.http.load import Seen, load
from penstock.migrate import migrate
from penstock.worker.process import run

OVERLOAD = 10


def main(
    connections: Annotated[int, typer.Option(help="How many clients ask at once.")] = 64,
    seconds: Annotated[float, typer.Option(help="How long each turn takes.")] = 4.0,
    rounds: Annotated[int, typer.Option(help="How often; the medians are shown.")] = 5,
    database_url: Annotated[
        str | None, typer.Option(help="A server of your own.", show_default=False)
    ] = None,
) -> None:
    """Measure what the database costs, and ten times the load."""
    run(_measure(connections, seconds, rounds, database_url))


async def _measure(connections: int, seconds: float, rounds: int, given: str | None) -> None:
    async with server(given) as postgres, postgres.database("http") as database:
        url = database.url
        await migrate(url)
        async with _served(url, "stored") as stored, _served(url, "not stored") as bare:
            await load(stored[0], connections, 1)
            await load(bare[0], connections, 1)
            with_database, without = [], []
            for _ in range(rounds):
                without.append(await load(bare[0], connections, seconds))
                with_database.append(await load(stored[0], connections, seconds))
            _show("without database", without, bare[1])
            _show("stored", with_database, stored[1])
            share = median(
                one.rate / other.rate for one, other in zip(with_database, without, strict=True)
            )
            typer.echo(f"stored / without: {share:.2f}")
            many = connections * OVERLOAD
            patient = [await load(stored[0], many, seconds, patience=1.0) for _ in range(rounds)]
            _show(f"{many} clients that wait when told", patient, stored[1])
            rude = [await load(stored[0], many, seconds, patience=0.01) for _ in range(rounds)]
            _show(f"{many} clients that do not", rude, stored[1])


@asynccontextmanager
async def _served(url: str, how: str) -> AsyncIterator[tuple[int, int]]:
    """The port and the process of a server."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.http.serve", url, how), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline()), process.pid
    finally:
        process.terminate()
        await process.wait()


def _show(what: str, seen: list[Seen], pid: int) -> None:
    rate = median(one.rate for one in seen)
    middle, late = (1000 * median(one.quantile(q) for one in seen) for q in (0.5, 0.99))
    refused = median(one.statuses[503] / one.seconds for one in seen)
    others = {s for one in seen for s in one.statuses} - {202, 503}
    typer.echo(
        f"{what}: {rate:,.0f} jobs/s, p50 {middle:.1f} ms, p99 {late:.1f} ms, "
        f"{refused:,.0f} refused/s, {_memory(pid):.0f} MiB{f', also {others}' if others else ''}"
    )


def _memory(pid: int) -> float:
    found = Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]
    return int(found) / 1024


if __name__ == "__main__":
    typer.run(main)
