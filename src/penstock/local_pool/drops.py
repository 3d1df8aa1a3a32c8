"""Says that calls were dropped, at most once a minute."""

from __future__ import annotations

import logging
import threading
import time

from penstock.events import CallsDropped, Events

logger = logging.getLogger("penstock.local_pool")

INTERVAL = 60.0


class Drops:
    """Those that nobody has been told of yet."""

    def __init__(self, pool: str, events: Events) -> None:
        self._pool = pool
        self._events = events
        self._lock = threading.RLock()
        self._told = 0
        self._again_at = 0.0

    def tell(self, dropped: int, *, now: bool = False) -> None:
        """Log how many there are since the last time, unless that was less than a minute ago."""
        if dropped <= self._told or (time.monotonic() < self._again_at and not now):
            return
        with self._lock:
            self._again_at = time.monotonic() + INTERVAL
            count, self._told = dropped - self._told, max(dropped, self._told)
        if count > 0:
            logger.warning(
                "The pool %s has dropped calls: %d.", self._pool, count, extra={"pool": self._pool}
            )
            self._events.emit(CallsDropped(self._pool, count))
