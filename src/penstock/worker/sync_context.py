"""What waits, for handlers that do not await."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.backoff import Policy
from penstock.store import adapt, drive
from penstock.tasks import SyncContext
from penstock.tasks.handler.waits import Polling, event_wait
from penstock.tasks.options import CHECKS, seconds
from penstock.tasks.workflow import Parent, Workflow
from penstock.worker.bridge import Bridge
from penstock.worker.budgets import SyncBudgetBlock
from penstock.worker.event_waits import wait_for_event
from penstock.worker.polls import Poller
from penstock.worker.sleeps import sleep
from penstock.worker.steps import StepRunner

if TYPE_CHECKING:
    from penstock.worker.context import AttemptContext


class SyncAttempt(SyncContext):
    """The context of an attempt in a thread: what must be awaited is, on the worker's loop."""

    def __init__(self, context: AttemptContext, bridge: Bridge) -> None:
        self._context = context
        self._bridge = bridge

    def fence(self, conn: Any) -> None:
        drive(self._context.fence_on(adapt(conn, "blocking")))

    def complete(self, conn: Any, result: Any = None) -> None:
        drive(self._context.complete_on(adapt(conn, "blocking"), result))

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> SyncBudgetBlock:
        return SyncBudgetBlock(self._bridge, self._context.budget(key, units=units, wait=wait))

    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        self._bridge.run(self._context.close_bucket(key, wait))

    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        cache: Any = None,
        **kwargs: Any,
    ) -> Any:
        runner = StepRunner(self._context.memory, cache)
        return runner.run_blocking(self._bridge, name, fn, args, kwargs)

    def parents(self) -> dict[str, Parent]:
        return self._bridge.run(self._context.read_parents())

    def extend(self, flow: Workflow) -> dict[str, str]:
        return self._bridge.run(self._context.add_steps(flow))

    def sleep(self, length: float | timedelta) -> None:
        self._bridge.run(sleep(self._context.memory, seconds=seconds("length", length)))

    def sleep_until(self, when: datetime) -> None:
        until = CHECKS["run_at"]("when", when)
        self._bridge.run(sleep(self._context.memory, until=until))

    def wait_for_event(self, name: str, timeout: float | timedelta | None = None) -> Any:
        return self._bridge.run(wait_for_event(self._context.memory, *event_wait(name, timeout)))

    def poll(
        self,
        name: str,
        check: Callable[..., Any],
        /,
        *args: Any,
        every: float | timedelta | Policy = 10.0,
        most: int | None = None,
        within: float | timedelta | None = None,
        **kwargs: Any,
    ) -> Any:
        poller = Poller(self._context.memory, Polling(every, most, within))
        return poller.run_blocking(self._bridge, name, check, args, kwargs)
