"""The attempts that share a call of their handler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from penstock.store import ClaimedJob
from penstock.tasks import Task
from penstock.worker.attempt import Attempt, StopReason
from penstock.worker.claim.queue import QueueState


class ItemAttempt(Attempt):
    """One of several attempts that share a call. It can be stopped without the others."""

    __slots__ = ("_call", "_on_stop", "value")

    def __init__(
        self,
        job: ClaimedJob,
        value: Any,
        call: SharedCall,
        on_stop: Callable[[ItemAttempt], None],
    ) -> None:
        super().__init__(job, call.task, call.state)
        self.value = value
        self._call = call
        self._on_stop = on_stop

    @property
    def is_pending(self) -> bool:
        """Whether the item still needs an outcome. It does even after the fence refused a write."""
        return not self.is_settled and self.stop_reason in (None, "refused")

    def stop(self, reason: StopReason) -> None:
        """Settle the item now.

        The handler can see the item's flag, and goes on with the other items.
        """
        if self.stop_reason not in (None, "refused"):
            return
        if self.stop_reason is None:
            self._uncount()
            self.stop_reason = reason
        self._on_stop(self)

    def end(self) -> None:
        self._uncount()
        super().end()

    def _uncount(self) -> None:
        if self.is_pending:
            self._call.pending -= 1


class SharedCall:
    """The attempts that share one slot and one call of their handler."""

    def __init__(self, task: Task[Any, Any], state: QueueState) -> None:
        self.task = task
        self.state = state
        self.attempts: list[ItemAttempt] = []
        # How many outcomes are still needed.
        self.pending = 0
        self.future: asyncio.Task[None] | None = None
        self._started_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """How many seconds the call has taken."""
        return time.monotonic() - self._started_at

    def add(self, attempt: ItemAttempt) -> None:
        self.attempts.append(attempt)
        self.pending += 1

    @property
    def is_over(self) -> bool:
        """Whether no item needs an outcome any more."""
        return not self.pending

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the call must stop, or None while any of its items may go on."""
        if any(attempt.stop_reason is None for attempt in self.attempts):
            return None
        return self.attempts[0].stop_reason
