"""Keeps a worker's rules up to date.

It reads them again when they change, and when a time window opens or closes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import Pool, Store
from penstock.store.rules import Rules
from penstock.worker.timing import DEFAULT_TIMING, Timing

# The rules are read this long after a window opens or closes, to be past that moment.
AFTER_CHANGE_S = 0.01


class RulesReader(Service):
    """Reads the rules in force.

    NOTIFY reports changes at once. Without notifications, the worker sees changes a little later.
    """

    name = "rules"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        queues: Sequence[str],
        on_change: Callable[[Rules], None],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._queues = queues
        self._on_change = on_change
        self._check_interval = timing.rules
        self._next_change_at = float("inf")
        self.rules = Rules()

    def read_soon(self) -> None:
        """Read the rules again, even if their version is the same.

        A restore from an older backup sets the version back. Later the version may equal the one
        that this worker knows, although the rules differ.
        """
        self._next_change_at = time.monotonic()
        self.wake()

    async def tick(self) -> float:
        is_due = time.monotonic() >= self._next_change_at
        if is_due or await self._store.rules_version(self._pool) != self.rules.version:
            await self.read()
        return min(
            self._check_interval, max(self._next_change_at - time.monotonic(), 0.0) + AFTER_CHANGE_S
        )

    async def read(self) -> None:
        """Read the rules, and put them in force."""
        asked_at = time.monotonic()
        self.rules = await self._store.rules(self._pool, self._queues)
        changes_in = self.rules.changes_in
        self._next_change_at = float("inf") if changes_in is None else asked_at + changes_in
        self._on_change(self.rules)
