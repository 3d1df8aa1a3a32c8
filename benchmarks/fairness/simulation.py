"""The jobs arrive, the workers work; when did each job start?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.comparison.environment import ROOT
from benchmarks.fairness.load import Arrival
from benchmarks.fairness.worker import work
from penstock.bench.child import BenchFailed, module_command, start_children
from penstock.bench.drain import wait_until_all_settled
from penstock.bench.measured import Orders
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import Sandbox

WORKER = module_command("benchmarks.fairness.worker")
PROCESSES = 2
EVERY = 0.02


@dataclass(frozen=True, slots=True)
class Start:
    """When a job arrived and when its handler began, in seconds after the first arrival."""

    tenant: int
    arrived: float
    began: float

    @property
    def waited(self) -> float:
        return self.began - self.arrived


async def simulate(
    sandbox: Sandbox, arrivals: Sequence[Arrival], live: LiveLine, *, fair: bool
) -> list[Start]:
    """All jobs, in the order of their arrival."""
    await sandbox.clear()
    await sandbox.app.set_queue(work.defaults.queue, fair=fair)
    orders = Orders(sandbox.url, sandbox.schema)
    async with start_children(WORKER, orders, PROCESSES, folder=ROOT) as started:
        for child in started:
            await child.go()
        zero = time.monotonic()
        await _arrive(sandbox, arrivals, zero)
        await wait_until_all_settled(
            started, len(arrivals), lambda done, _: live.progress(done, len(arrivals))
        )
        finished = [await child.stop() for child in started]
    began = {number: at - zero for one in finished for number, at in one.stamps.items()}
    if len(began) != len(arrivals):
        raise BenchFailed(f"Of {len(arrivals)} jobs {len(began)} were started.")
    return [Start(one.tenant, one.at, began[number]) for number, one in enumerate(arrivals)]


async def _arrive(sandbox: Sandbox, arrivals: Sequence[Arrival], zero: float) -> None:
    """Enqueue each job when it is due; those of the same moment together."""
    tasks = {one.tenant: work.options(tenant=f"tenant-{one.tenant + 1:05}") for one in arrivals}
    sent = 0
    while sent < len(arrivals):
        until = sent
        while until < len(arrivals) and arrivals[until].at <= time.monotonic() - zero:
            until += 1
        await sandbox.app.enqueue_many(
            tasks[arrivals[number].tenant].prepare(number) for number in range(sent, until)
        )
        sent = until
        await asyncio.sleep(EVERY)
