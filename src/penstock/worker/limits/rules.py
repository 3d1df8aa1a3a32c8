"""Keeps a worker's rules up to date: read when they change, and when a window opens or closes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from penstock.lifecycle import Health, Service
from penstock.store import Pool, Store
from penstock.store.rules import Rules
from penstock.worker.timing import DEFAULT_TIMING, Timing

# A window's edge is passed, not only reached, when the rules are read for it.
PAST = 0.01


class RulesReader(Service):
    """The rules in force. Told of changes by NOTIFY; without it they are seen a little later."""

    name = "rules"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        queues: Sequence[str],
        changed: Callable[[Rules], None],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._queues = queues
        self._changed = changed
        self._look_every = timing.rules
        self._change_due = float("inf")
        self.rules = Rules()

    def read_soon(self) -> None:
        """Read the rules anew, whatever their version says.

        Once an older backup has been restored, the version has gone back and may come to be the one
        that is known here, with other rules behind it.
        """
        self._change_due = time.monotonic()
        self.wake()

    async def tick(self) -> float:
        is_due = time.monotonic() >= self._change_due
        if is_due or await self._store.rules_version(self._pool) != self.rules.version:
            await self.read()
        return min(self._look_every, max(self._change_due - time.monotonic(), 0.0) + PAST)

    async def read(self) -> None:
        """Read the rules, and put them in force."""
        asked = time.monotonic()
        self.rules = await self._store.rules(self._pool, self._queues)
        changes_in = self.rules.changes_in
        self._change_due = float("inf") if changes_in is None else asked + changes_in
        self._changed(self.rules)
