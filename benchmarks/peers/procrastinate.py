"""Procrastinate: psycopg, one job a claim, locks and periodic tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from procrastinate import App, PsycopgConnector

from benchmarks.peers.peer import Facts, Promises, Settings
from benchmarks.peers.runs import Runs

FACTS = Facts(
    name="Procrastinate",
    package="procrastinate",
    home="https://github.com/procrastinate-org/procrastinate",
    jobs=4_000,
    settings={"concurrency": 20, "workers": 2},
    tried=(
        {"concurrency": 1, "workers": 1},
        {"concurrency": 20, "workers": 1},
        {"concurrency": 100, "workers": 1},
        {"workers": 4},
        {"workers": 8},
    ),
    reasons=(
        "`concurrency`: completions are written side by side, while a worker claims one job "
        "after the other.",
        "Several workers in the process, so that there are several claims at a time.",
        "A pool of 40 connections, so that none waits for one; the default is 4.",
        "Finished jobs stay, which is its default; `delete_jobs` would leave no record.",
        "Async handlers, `LISTEN`, psycopg's binary build.",
    ),
    promises=Promises(
        core="Python",
        claim="one job, durable, with an event",
        completion="a statement and a durable commit per job, before its place is free",
        history="kept, with an event per change",
        fence="none: settled by id and state",
        liveness="a heartbeat per worker; stalled jobs are retried by a task of one's own",
        delivery="at most once, unless stalled jobs are retried",
    ),
    left="SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
    completed="SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
)


def _app(url: str) -> App:
    return App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=40))


async def install(url: str) -> None:
    async with _app(url).open_async() as app:
        await app.schema_manager.apply_schema_async()


class Client:
    def __init__(self, app: App) -> None:
        self._task = app.configure_task("bench")

    async def enqueue(self, number: int) -> None:
        await self._task.defer_async(number=number)

    async def enqueue_many(self, numbers: range) -> None:
        await self._task.batch_defer_async(*({"number": number} for number in numbers))


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with _app(url).open_async() as app:
        yield Client(app)


@asynccontextmanager
async def worker(url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
    app = _app(url)

    @app.task(name="bench")
    async def bench(number: int) -> None:
        runs.note(number)

    async with app.open_async():
        working = [
            asyncio.create_task(
                app.run_worker_async(
                    concurrency=settings["concurrency"],
                    install_signal_handlers=False,
                )
            )
            for _ in range(settings["workers"])
        ]
        yield
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
