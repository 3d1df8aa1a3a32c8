"""The context of a call that many jobs share, as the worker gives it to handlers."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, TypeVar

from penstock.tasks import BatchContext, SyncBatchContext
from penstock.tasks.options import limit_key, seconds
from penstock.worker.bridge import Bridge
from penstock.worker.budgets import BudgetBlock, Budgets, SyncBudgetBlock
from penstock.worker.item_run import SharedCall
from penstock.worker.resources import Offers

R = TypeVar("R")

logger = logging.getLogger("penstock.job")


class CallLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines carry the call: in the message for people, as fields for programs."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        fields = {**(self.extra or {}), **kwargs.get("extra", {})}
        kwargs["extra"] = fields
        return f"[{fields['task']}, items: {fields['items']}] {msg}", kwargs


class CallContext(BatchContext):
    """The logger, budgets and resources of one call."""

    def __init__(
        self, call: SharedCall, items: int, opened: Offers, budgets: Budgets, bridge: Bridge
    ) -> None:
        self._call = call
        self._items = items
        self._opened = opened
        self._budgets = budgets
        self._bridge = bridge

    @property
    def logger(self) -> CallLogger:
        name, queue = self._call.task.name, self._call.state.name
        return CallLogger(logger, {"task": name, "queue": queue, "items": self._items})

    @property
    def cancelled(self) -> bool:
        return self._call.stopped is not None

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> BudgetBlock:
        return BudgetBlock(self._budgets, self._call, key, units, wait)

    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        await self._budgets.close(limit_key("key", key), seconds("wait", wait))

    @property
    def sync(self) -> SyncBatchContext:
        return SyncCall(self, self._bridge)

    def resource(self, kind: type[R]) -> R:
        return self._opened.get(kind)


class SyncCall(SyncBatchContext):
    """The same for a handler in a thread: what must be awaited is, on the worker's loop."""

    def __init__(self, context: CallContext, bridge: Bridge) -> None:
        self._context = context
        self._bridge = bridge

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> SyncBudgetBlock:
        return SyncBudgetBlock(self._bridge, self._context.budget(key, units=units, wait=wait))

    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        self._bridge.run(self._context.close_bucket(key, wait))
