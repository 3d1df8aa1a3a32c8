"""A queue that is filled and worked off, as plain jobs and their kin are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from benchmarks.peers.peer import Facts, Settings
from benchmarks.peers.runs import Runs
from penstock import Penstock, Task, task

QUEUE = "default"
AT_ONCE = 100_000
FACTS = Facts(
    name="Penstock",
    package="penstock",
    left="SELECT count(*) FROM penstock.job",
    completed="SELECT count(*) FROM penstock.job_history WHERE state = 'completed'",
)
_runs: Runs


@task(name="bench")
async def bench(number: int) -> None:
    _runs.note(number)


def tenants(number: int) -> list[str]:
    return [f"tenant-{one:06}" for one in range(number)]


class Client:
    """Enqueues the jobs of some tenants in turn, or of nobody."""

    def __init__(self, app: Penstock, kinds: Sequence[Task[[int], None]]) -> None:
        self._app = app
        self._kinds = kinds

    async def enqueue(self, number: int) -> None:
        await self._app.enqueue(self._kinds[number % len(self._kinds)], number)

    async def enqueue_many(self, numbers: range) -> None:
        kinds = self._kinds
        for start in range(0, len(numbers), AT_ONCE):
            some = numbers[start : start + AT_ONCE]
            await self._app.enqueue_many(
                kinds[number % len(kinds)].prepare(number) for number in some
            )


class Queue:
    """Plain jobs; a scene changes what it is about."""

    FACTS = FACTS
    task: Task[[int], None] = bench
    tenants: Sequence[str] = ()

    async def install(self, url: str) -> None:
        app = Penstock(url)
        await app.migrate()
        await self.arrange(app)
        await app.close()

    async def arrange(self, app: Penstock) -> None:
        """Set the queue up; a new one is plain."""

    @asynccontextmanager
    async def client(self, url: str) -> AsyncIterator[Client]:
        kinds = [self.task.options(tenant=name) for name in self.tenants] or [self.task]
        async with Penstock(url) as app:
            yield Client(app, kinds)

    @asynccontextmanager
    async def worker(self, url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
        global _runs
        _runs = runs
        async with Penstock(url, include=[self.task]) as app, app.worker():
            yield
