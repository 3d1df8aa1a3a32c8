"""What a peer's process can be asked to do, the same for all of them."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib.metadata import version
from platform import python_version
from typing import Any

from benchmarks.peers.bench import Bench, say
from benchmarks.peers.peer import Client, Peer
from benchmarks.peers.runs import Meter, Runs, cpu_seconds


async def facts(peer: Peer) -> None:
    """Say what the peer is."""
    about = dataclasses.asdict(peer.FACTS)
    versions = {"version": version(peer.FACTS.package), "python": python_version()}
    say("Facts", **about, **versions)


async def install(peer: Peer) -> None:
    """Make the peer's tables."""
    bench = await Bench.connect()
    await bench.go()
    await peer.install(bench.orders["url"])
    _done({})


async def enqueue_many(peer: Peer) -> None:
    """Enqueue all jobs at once."""

    async def at_once(client: Client, orders: dict[str, Any]) -> dict[int, float]:
        began = time.monotonic()
        await client.enqueue_many(range(orders["jobs"]))
        return {0: began, orders["jobs"]: time.monotonic()}

    await _enqueue(peer, at_once)


async def enqueue(peer: Peer) -> None:
    """Enqueue one job after the other, at most so many a second; the time of each call."""

    async def in_turn(client: Client, orders: dict[str, Any]) -> dict[int, float]:
        # The first calls open connections and prepare statements.
        for number in range(orders["warm_up"]):
            await client.enqueue(-1 - number)
        asked, pause = {}, 1 / orders["pace"] if orders["pace"] else 0.0
        for number in range(orders["jobs"]):
            asked[number] = time.monotonic()
            await client.enqueue(number)
            if pause:
                await asyncio.sleep(max(0.0, asked[number] + pause - time.monotonic()))
        return {**asked, orders["jobs"]: time.monotonic()}

    await _enqueue(peer, in_turn)


async def _enqueue(
    peer: Peer, how: Callable[[Client, dict[str, Any]], Awaitable[dict[int, float]]]
) -> None:
    bench = await Bench.connect()
    async with peer.client(bench.orders["url"]) as client:
        await bench.go()
        stamps = await how(client, bench.orders)
    _done(stamps)


def _done(stamps: dict[int, float]) -> None:
    say("Finished", samples=[], cpu_seconds=0.0, peak_rss=None, stamps=stamps)


async def work(peer: Peer, cpu_seconds: Callable[[], float] = cpu_seconds) -> None:
    """Work until told to stop."""
    bench = await Bench.connect()
    runs = Runs(stamped=bench.orders["stamped"])
    await bench.go()
    meter = Meter(runs, say, cpu_seconds)
    watching = asyncio.create_task(meter.watch())
    async with peer.worker(bench.orders["url"], bench.orders["settings"], runs):
        await bench.stop()
        watching.cancel()
        finished = meter.finished()
    say("Finished", **finished)


ROLES: dict[str, Callable[[Peer], Coroutine[Any, Any, None]]] = {
    "facts": facts,
    "install": install,
    "enqueue-many": enqueue_many,
    "enqueue": enqueue,
    "work": work,
}
