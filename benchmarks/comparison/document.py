"""A whole comparison, as one document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from benchmarks.comparison import enqueue, pythons, rounds, tuning
from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.environment import CannotInstall, Environment
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import Postgres
from benchmarks.comparison.results import Results, described
from benchmarks.comparison.rounds import Lane
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import SandboxServer, machine

PEERS = ("penstock", "pgqueuer", "awa", "chancy", "oban", "procrastinate")


def enter(keys: Sequence[str], live: LiveLine) -> tuple[list[Entrant], dict[str, str]]:
    """Those who can take part, and why others cannot."""
    python, version = pythons.choose()
    entrants, left_out = [], {}
    for key in keys:
        with live.doing(f"{key}: its environment"):
            try:
                entrants.append(_entered(key, python, version))
            except CannotInstall as error:
                left_out[key] = str(error)
                live.warn(f"{key} is left out: {error}")
    return entrants, left_out


def _entered(key: str, python: str, version: str) -> Entrant:
    environment = Environment(key)
    environment.make(python, version)
    entrant = Entrant.of_peer(key, environment.python)
    if tuple(map(int, version.split(".")[:2])) < entrant.facts.needs:
        needed = ".".join(map(str, entrant.facts.needs))
        raise CannotInstall(f"it needs Python {needed}; name one with {pythons.NAMED}=…")
    return entrant


async def compare(
    postgres: Postgres,
    plan: Plan,
    live: LiveLine,
    entrants: Sequence[Entrant],
    left_out: dict[str, str],
) -> dict[str, Any]:
    """Tune, measure, and put it all together."""
    before = machine()
    async with entered(postgres, plan, live, entrants) as lanes:
        if plan.tune:
            await tuning.tune(lanes)
        await rounds.run(lanes, plan.rounds, live)
    done = [lane for lane in lanes if lane.entrant.fault is None]
    faults = {one.key: one.fault for one in entrants if one.fault is not None}
    return {
        "rounds": plan.rounds,
        "peers": {
            lane.entrant.key: described(lane.entrant, lane.jobs, lane.results) for lane in done
        },
        "left_out": {**left_out, **faults},
        **(await SandboxServer.of(postgres.admin)).as_dict(),
        "python": entrants[0].python if entrants else None,
        "machine": before,
    }


@asynccontextmanager
async def entered(
    postgres: Postgres, plan: Plan, live: LiveLine, entrants: Sequence[Entrant]
) -> AsyncIterator[list[Lane]]:
    """A database with each entrant's tables, to be copied for each measurement."""
    async with AsyncExitStack() as stack:
        lanes = []
        for entrant in entrants:
            empty = await stack.enter_async_context(postgres.database(entrant.key))
            for extension in entrant.facts.extensions:
                await postgres.extend(empty, extension)
            lanes.append(Lane(entrant, empty, postgres, plan, live, Results()))
        with live.doing("their tables"):
            await asyncio.gather(*(_install(lane) for lane in lanes))
        yield lanes


async def _install(lane: Lane) -> None:
    with lane.entrant.or_out(lane.live):
        await enqueue.install(lane.entrant, lane.empty)
