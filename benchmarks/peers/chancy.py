"""Chancy: psycopg, plugins, and executors to choose from."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chancy import Chancy, Queue, Worker, job
from chancy.plugins.leadership import Leadership
from chancy.plugins.pruner import Pruner
from chancy.plugins.recovery import Recovery

from benchmarks.peers.peer import Facts, Promises, Settings
from benchmarks.peers.runs import Runs

FACTS = Facts(
    name="Chancy",
    package="chancy",
    home="https://github.com/TkTech/chancy",
    jobs=30_000,
    settings={"concurrency": 1000, "flush": 0.05},
    tried=(
        {"concurrency": 100},
        {"concurrency": 300},
        {"concurrency": 3000},
        {"concurrency": 10_000},
        {"flush": 1.0},
    ),
    reasons=(
        "`concurrency`: it claims as many jobs as there are free places.",
        "`AsyncExecutor`: no thread or process between the loop and a handler.",
        "`eager_polling`: it looks for more as soon as a job has ended, not every 5 s.",
        "`send_outgoing_interval` 0.05 s: how often completions are written; 1 s by default.",
        "Leadership, recovery and pruning as by default, without metrics and workflows.",
        "A logger that is silent below warnings; its own prints a line for every job.",
        "psycopg's binary build.",
    ),
    promises=Promises(
        core="Python",
        claim="as many jobs as there are places, durable",
        completion="every `send_outgoing_interval`, a statement per job, many in one durable "
        "transaction; the next jobs do not wait",
        history="kept until pruned, in the same table",
        fence="a random id per job and claim",
        liveness="a heartbeat per worker",
        delivery="at least once",
    ),
    left="SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed', 'expired')",
    completed="SELECT count(*) FROM chancy_jobs WHERE state = 'succeeded'",
)

AT_ONCE = 1000  # its default
_runs: Runs


@job()
async def bench(*, number: int) -> None:
    _runs.note(number)


def _chancy(url: str) -> Chancy:
    return Chancy(
        url,
        plugins=[Leadership(), Pruner(), Recovery()],
        no_default_plugins=True,
        # Without a logger of one's own it prints a line for every job.
        log=logging.getLogger("chancy"),
    )


async def install(url: str) -> None:
    async with _chancy(url) as chancy:
        await chancy.migrate()


class Client:
    def __init__(self, chancy: Chancy) -> None:
        self._chancy = chancy

    async def enqueue(self, number: int) -> None:
        await self._chancy.push(bench.job.with_kwargs(number=number))

    async def enqueue_many(self, numbers: range) -> None:
        jobs = [bench.job.with_kwargs(number=number) for number in numbers]
        async for _ in self._chancy.push_many(jobs, batch_size=AT_ONCE):
            pass


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with _chancy(url) as chancy:
        yield Client(chancy)


@asynccontextmanager
async def worker(url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
    global _runs
    _runs = runs
    async with _chancy(url) as chancy:
        queue = Queue(
            "default",
            concurrency=settings["concurrency"],
            executor=Chancy.Executor.Async,
            eager_polling=True,
            polling_interval=1,
        )
        await chancy.declare(queue, upsert=True)
        working = Worker(chancy, register_signal_handlers=False)
        working.send_outgoing_interval = settings["flush"]
        async with working:
            yield
