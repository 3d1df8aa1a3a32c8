"""Plain jobs."""

from __future__ import annotations

from benchmarks.before_after.adapters.base.queue import Queue

PEER = Queue()
