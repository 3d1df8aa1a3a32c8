"""A task that shows how many of its jobs run at once, and how many have begun."""

import asyncio
from collections import Counter
from typing import Any

from penstock import Context, Penstock
from penstock.worker import Worker
from tests.fixtures.until import until
from tests.fixtures.worker import worker_state


class Meter:
    """Counts by name. Its jobs last a moment each, or until they are let go.

    >>> meter = Meter(app, gated=True)
    >>> await app.enqueue(meter.task, "a")
    >>> await meter.begun(1)
    >>> meter.let_go(1)
    """

    def __init__(
        self, app: Penstock, name: str = "metered", *, gated: bool = False, **options: Any
    ):
        self.order: list[str] = []
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done = 0
        self._waiting = 0
        self._gate = asyncio.Semaphore(0)
        self._gated = gated

        @app.task(name=name, **options)
        async def metered(ctx: Context, who: str = "") -> None:
            await self._run(who)

        self.task: Any = metered

    @property
    def running(self) -> int:
        return self.now.total()

    async def _run(self, who: str) -> None:
        self.order.append(who)
        self.now[who] += 1
        self.most[who] = max(self.most[who], self.now[who])
        self.most["all"] = max(self.most["all"], self.running)
        try:
            await (self._wait() if self._gated else asyncio.sleep(0.005))
        finally:
            self.now[who] -= 1
        self.done += 1

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            await self._gate.acquire()
        finally:
            self._waiting -= 1

    def hold(self) -> None:
        """From now on they last until they are let go."""
        self._gated = True

    @property
    def is_held(self) -> bool:
        """Whether all that run wait to be let go."""
        return self.running == self._waiting

    def let_go(self, count: int = 1) -> None:
        """Let so many of those that wait end, the longest first."""
        for _ in range(count):
            self._gate.release()

    def let_all_go(self) -> None:
        self._gated = False
        self.let_go(10_000)

    async def begun(self, count: int, timeout: float = 60.0) -> None:
        """Wait until so many have begun."""
        await until(lambda: len(self.order) >= count, timeout, what=f"{count} to begin: {self!r}")

    async def ended(self, count: int, timeout: float = 60.0) -> None:
        await until(lambda: self.done >= count, timeout, what=f"{count} to end: {self!r}")

    def __repr__(self) -> str:
        return f"{len(self.order)} begun, {self.running} running, {self.done} done"


async def expect_nothing_counted(*workers: Worker) -> None:
    """Nothing runs and nothing is at hand: no limit of a worker may count anything."""
    for worker in workers:

        def counts(worker: Worker = worker) -> dict[str, tuple[int, int, int]]:
            limits = worker_state(worker).limits
            return {
                key: (seen.used, seen.prefetched, seen.claiming) for key, seen in limits.items()
            }

        def is_clear(counts: Any = counts) -> bool:
            return all(numbers == (0, 0, 0) for numbers in counts().values())

        await until(is_clear, what=f"counts to be clear, {counts()}")
