"""The life of a pool: what its face, its app and code that blocks do with it."""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakSet

from penstock.events import Events
from penstock.forks import begins_anew
from penstock.local_pool.drops import Drops
from penstock.local_pool.home import Home, OwnLoop
from penstock.local_pool.ledger import Ledger, Wait
from penstock.local_pool.runner import Runner
from penstock.local_pool.submitted import PoolCounts, SubmittedCall

# How long a close waits for what has not ended, and then for what it has cancelled.
CLOSE_WAIT = 5.0
CLEAN_UP = 1.0


@dataclass(frozen=True)
class Host:
    """Whom a pool lives with: an app has events and a loop, and may care for each call."""

    events: Events = field(default_factory=Events)
    make_home: Callable[[], Home] = OwnLoop
    dress: Callable[[SubmittedCall], None] | None = None


class Life:
    """Takes calls until it is closed, and can begin anew."""

    def __init__(self, name: str, workers: int, slots: int, host: Host) -> None:
        self._name = name
        self._workers = workers
        self._slots = slots
        self.host = host
        self.begin_anew()
        begins_anew(self)
        _all.add(self)

    def begin_anew(self) -> None:
        """Know of no calls; in a forked child threads, loops and the calls in them are its
        parent's."""
        self.ledger = Ledger(self._workers, self._slots)
        self._drops = Drops(self._name, self.host.events)
        self._runner = self._make_runner()

    def _make_runner(self) -> Runner:
        return Runner(self._name, self.ledger, self.host.make_home(), self._drops)

    def take(self, call: SubmittedCall) -> bool:
        """Make a call now or later; False if it was dropped."""
        if self.host.dress is not None:
            self.host.dress(call)
        if call.is_async:
            call.loop = self._runner.loop()
        match self.ledger.admit(call):
            case "begins":
                return self._runner.start(call)
            case "waits":
                return True
            case "dropped":
                self._drops.tell(self.ledger.dropped)
                return False

    def stay_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run what awaits on this loop."""
        self._runner.stay_on(loop)

    @property
    def counts(self) -> PoolCounts:
        self._runner.look()
        return self.ledger.counts

    @property
    def is_busy(self) -> bool:
        """Whether calls wait or run."""
        counts = self.counts
        return counts.waiting + counts.running > 0

    # The end

    def close(self, *, again: bool = True) -> Wait:
        """Take no more; unless `again`, what was waited for in vain is not waited for."""
        self._runner.look()
        self.ledger.closed = True
        return self.ledger.wait(again=again)

    async def finish(self, wait: Wait, timeout: float | None) -> int:
        """Wait for those there are and drop the rest; how many that were."""
        try:
            await wait.ends(timeout)
        finally:
            left = self.end()
        here = asyncio.get_running_loop()
        if tasks := [call.task for call in left if call.task and call.loop is here]:
            await asyncio.wait(tasks, timeout=CLEAN_UP)
        return len(left)

    def end(self) -> list[SubmittedCall]:
        """Drop what is left. Should calls be taken again, they have threads of their own."""
        runner, self._runner = self._runner, self._make_runner()
        return runner.end()

    def reopen(self) -> None:
        self.ledger.closed = False

    # While it goes on

    async def settle(self, timeout: float) -> None:
        """Wait for what there is now, once, and take more meanwhile."""
        self._runner.look()
        wait, ended = self.ledger.wait(again=False), False
        try:
            ended = await wait.ends(timeout)
        finally:
            if not ended:
                self.ledger.waited_in_vain(wait)

    def settle_blocking(self, timeout: float) -> None:
        """The same, in a thread that may wait."""
        wait = self.ledger.wait_blocking()
        if not wait.ends_blocking(timeout):
            self.ledger.waited_in_vain(wait)


_all: WeakSet[Life] = WeakSet()


def _finish_all() -> None:
    """A program that just ends has its last calls made, where somebody can still make them."""
    ends_at = time.monotonic() + CLOSE_WAIT
    for life in tuple(_all):
        life.settle_blocking(max(ends_at - time.monotonic(), 0))


atexit.register(_finish_all)
