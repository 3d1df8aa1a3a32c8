"""PgQueuer: asyncpg, batches, a log of every change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers.peer import Facts, Promises, Settings
from benchmarks.peers.runs import Runs

FACTS = Facts(
    name="PgQueuer",
    package="pgqueuer",
    home="https://github.com/janbjorge/pgqueuer",
    jobs=100_000,
    settings={"batch_size": 1000, "managers": 1},
    tried=(
        {"batch_size": 100},
        {"batch_size": 300},
        {"batch_size": 3000},
        {"managers": 2},
        {"batch_size": 300, "managers": 2},
    ),
    reasons=(
        "`batch_size` is both the jobs of a claim and the completions of a write.",
        "asyncpg from a pool, the quicker of its drivers here, so that claims and completions "
        "need not wait for each other.",
        "`optimize_autovacuum()` as its documentation advises.",
        "`log_aggregation_interval` 0: the statistics are for its dashboard.",
        "`dequeue_timeout` 1 s: how long it waits for news before it looks by itself.",
        "`durability` stays `durable`; its faster modes use unlogged tables.",
    ),
    promises=Promises(
        core="Python",
        claim="`batch_size` jobs, durable, with a row of the log for each",
        completion="in batches of `batch_size` or after 0.1 s, durable; the next jobs do not wait",
        history="a row of the log for each change, without the payload",
        fence="none: settled by id",
        liveness="a heartbeat per job, written in batches",
        delivery="at least once",
    ),
    left="SELECT count(*) FROM pgqueuer",
    completed="SELECT count(DISTINCT job_id) FROM pgqueuer_log WHERE status = 'successful'",
)


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.close()


class Client:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def enqueue(self, number: int) -> None:
        await self._queries.enqueue("bench", _payload(number))

    async def enqueue_many(self, numbers: range) -> None:
        count = len(numbers)
        await self._queries.enqueue(["bench"] * count, list(map(_payload, numbers)), [0] * count)


def _payload(number: int) -> bytes:
    return b'{"number": %d}' % number


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    connection = await asyncpg.connect(url)
    yield Client(Queries(AsyncpgDriver(connection)))
    await connection.close()


@asynccontextmanager
async def worker(url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
    async with asyncpg.create_pool(url, min_size=4, max_size=8) as pool:
        managers = [_manager(pool, runs) for _ in range(settings["managers"])]
        working = [
            asyncio.create_task(
                manager.run(
                    batch_size=settings["batch_size"],
                    dequeue_timeout=timedelta(seconds=1),
                    log_aggregation_interval=timedelta(0),
                )
            )
            for manager in managers
        ]
        yield
        for manager in managers:
            manager.shutdown.set()
        await asyncio.gather(*working)


def _manager(pool: asyncpg.Pool, runs: Runs) -> PgQueuer:
    manager = PgQueuer(AsyncpgPoolDriver(pool))

    @manager.entrypoint("bench")
    async def bench(job: Job) -> None:
        runs.note(json.loads(job.payload or b"{}")["number"])

    return manager
