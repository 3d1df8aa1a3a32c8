"""Penstock, with its defaults."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.peers.peer import Facts, Promises, Settings
from benchmarks.peers.runs import Runs
from penstock import Penstock, task

FACTS = Facts(
    name="Penstock",
    package="penstock",
    home="README.md",
    jobs=200_000,
    settings={},
    tried=(),
    reasons=("The defaults: what somebody who just installed it gets.",),
    promises=Promises(
        core="Python",
        claim="hundreds of jobs; the commit does not wait for the disk, since after a crash of the "
        "server the jobs are ready again",
        completion="in batches as they come, durable; the next jobs do not wait for it",
        history="kept, in partitions by day",
        fence="a random token per job and claim",
        liveness="one lease per worker",
        delivery="at least once; exactly once for effects in the same Postgres",
    ),
    left="SELECT count(*) FROM penstock.job",
    completed="SELECT count(*) FROM penstock.job_history WHERE state = 'completed'",
)

AT_ONCE = 100_000
_runs: Runs


@task(name="bench")
async def bench(number: int) -> None:
    _runs.note(number)


async def install(url: str) -> None:
    app = Penstock(url)
    await app.migrate()
    await app.close()


class Client:
    def __init__(self, app: Penstock) -> None:
        self._app = app

    async def enqueue(self, number: int) -> None:
        await self._app.enqueue(bench, number)

    async def enqueue_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), AT_ONCE):
            some = numbers[start : start + AT_ONCE]
            await self._app.enqueue_many(bench.prepare(number) for number in some)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with Penstock(url) as app:
        yield Client(app)


@asynccontextmanager
async def worker(url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
    global _runs
    _runs = runs
    async with Penstock(url, include=[bench]) as app, app.worker():
        yield
