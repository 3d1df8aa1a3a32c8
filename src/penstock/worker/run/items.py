"""The attempts that share calls of their handler, while they run."""

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
    """One attempt among several of a call. It is stopped without the others."""

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
    def is_wanted(self) -> bool:
        """Whether its outcome is still asked for; the fence's word alone does not settle that."""
        return not self.is_settled and self.stopped in (None, "refused")

    def stop(self, reason: StopReason) -> None:
        """Settle it now; the handler finds its flag set, and goes on with the others."""
        if self.stopped not in (None, "refused"):
            return
        if self.stopped is None:
            self._leave()
            self.stopped = reason
        self._on_stop(self)

    def end(self) -> None:
        self._leave()
        super().end()

    def _leave(self) -> None:
        if self.is_wanted:
            self._call.wanted -= 1


class SharedCall:
    """The attempts of one slot, and the future that runs their handler for them."""

    def __init__(self, task: Task[Any, Any], state: QueueState) -> None:
        self.task = task
        self.state = state
        self.attempts: list[ItemAttempt] = []
        # How many outcomes somebody still waits for.
        self.wanted = 0
        self.future: asyncio.Task[None] | None = None
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self._began

    def add(self, attempt: ItemAttempt) -> None:
        self.attempts.append(attempt)
        self.wanted += 1

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for an outcome any more."""
        return not self.wanted

    @property
    def stopped(self) -> StopReason | None:
        """Why to stop, once all its items are told to."""
        if any(attempt.stopped is None for attempt in self.attempts):
            return None
        return self.attempts[0].stopped
