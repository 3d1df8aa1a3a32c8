"""Oban for Python: the open-source port of Elixir's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from oban import Oban
from oban import worker as worker_of
from oban.job import Job
from oban.schema import install as install_schema
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.peer import Facts, Promises, Settings
from benchmarks.peers.runs import Runs

FACTS = Facts(
    name="Oban",
    package="oban",
    home="https://github.com/oban-bg/oban-py",
    needs=(3, 12),
    jobs=12_000,
    settings={"limit": 100, "debounce": 0.005},
    tried=(
        {"limit": 10},
        {"limit": 30},
        {"limit": 300},
        {"limit": 1000},
        {"debounce": 0.0},
        {"limit": 300, "debounce": 0.0},
    ),
    reasons=(
        "`limit`: it claims as many jobs as there are free places.",
        "An async `process`, so that no thread is needed.",
        "psycopg's binary build, and its pool as `Oban.create_pool` makes it.",
        "Its paid edition, Oban Pro, writes inserts and completions in bulk; that is not measured.",
    ),
    promises=Promises(
        core="Python",
        claim="as many jobs as there are places, durable",
        completion="a statement per job, many in one durable transaction, before the next claim",
        history="kept for a day, in the same table",
        fence="the time of the claim",
        liveness="a heartbeat per queue and process; jobs are rescued by age",
        delivery="at least once",
    ),
    left="SELECT count(*) FROM oban_jobs"
    " WHERE state NOT IN ('completed', 'cancelled', 'discarded')",
    completed="SELECT count(*) FROM oban_jobs WHERE state = 'completed'",
)

_runs: Runs


@worker_of(queue="default")
class Bench:
    async def process(self, job: Job) -> None:
        _runs.note(job.args["number"])


@asynccontextmanager
async def _pool(url: str) -> AsyncIterator[AsyncConnectionPool[Any]]:
    pool = await Oban.create_pool(url)
    try:
        yield pool
    finally:
        await pool.close()


async def install(url: str) -> None:
    async with _pool(url) as pool:
        await install_schema(pool)


class Client:
    def __init__(self, oban: Oban) -> None:
        self._oban = oban

    async def enqueue(self, number: int) -> None:
        await self._oban.enqueue(Bench.new({"number": number}))

    async def enqueue_many(self, numbers: range) -> None:
        await self._oban.enqueue_many(Bench.new({"number": number}) for number in numbers)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with _pool(url) as pool, Oban(pool=pool) as oban:
        yield Client(oban)


@asynccontextmanager
async def worker(url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
    global _runs
    _runs = runs
    queue = {"limit": settings["limit"], "debounce_interval": settings["debounce"]}
    async with _pool(url) as pool, Oban(pool=pool, queues={"default": queue}):
        yield
