"""Waiting for a pool, for code that does not await."""

from __future__ import annotations

import time

from penstock.local_pool.home import running_loop
from penstock.local_pool.life import Life


class SyncLocalPool:
    """`pool.sync.idle()`, `pool.sync.drain(5)`: the calling thread waits."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def idle(self, timeout: float | None = None) -> None:
        """Wait until nothing waits or runs; TimeoutError if that takes too long. For tests."""
        _refuse_inside_a_loop("idle")
        ends_at = None if timeout is None else time.monotonic() + timeout
        while self._life.is_busy:
            left = None if ends_at is None else max(ends_at - time.monotonic(), 0)
            if not self._life.ledger.wait().ends_blocking(left):
                raise TimeoutError

    def drain(self, timeout: float | None = None) -> int:
        """Take no more calls, and wait for those there are; how many were dropped in the end."""
        _refuse_inside_a_loop("drain")
        self._life.close().ends_blocking(timeout)
        return len(self._life.end())


def _refuse_inside_a_loop(name: str) -> None:
    if running_loop() is not None:
        raise RuntimeError(
            f"pool.sync.{name} blocks, and this thread runs an event loop, which would stand still."
            f" Here, `await pool.{name}()`."
        )
