"""The context of an attempt, as the worker gives it to handlers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from penstock.errors import StaleAttempt
from penstock.job import Job
from penstock.outcome import DONE
from penstock.store import (
    Executor,
    Settlement,
    Store,
    adapt,
    drive,
    failures,
    is_in_transaction,
)
from penstock.tasks import Context, SyncContext, encode_result
from penstock.tasks.options import limit_key, seconds
from penstock.worker.budgets import BudgetBlock, Budgets, SyncBudgetBlock
from penstock.worker.resources import Opened
from penstock.worker.run import Run, StopReason

R = TypeVar("R")

logger = logging.getLogger("penstock.job")

COMPLETED_ALREADY = (
    "This attempt has completed its job already: ctx.complete comes last, once in an attempt, and "
    "no ctx.fence after it."
)
NO_TRANSACTION = (
    "ctx.fence holds the job until your transaction ends, and there is none: begin one first. "
    "Outside of one, every statement is committed by itself."
)

Report = Callable[[Run, float, float | None, str | None], None]


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines carry the job: in the message for people, as fields for programs."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        fields = {**(self.extra or {}), **kwargs.get("extra", {})}
        kwargs["extra"] = fields
        return f"[{fields['task']} {fields['job_id']}#{fields['attempt']}] {msg}", kwargs


class AttemptContext(Context):
    """One attempt's job, logger, progress, fence, budgets and resources."""

    def __init__(
        self, run: Run, store: Store, opened: Opened, budgets: Budgets, report: Report
    ) -> None:
        self._run = run
        self._store = store
        self._opened = opened
        self._budgets = budgets
        self._report = report
        self._logger: JobLogger | None = None

    @property
    def job(self) -> Job:
        return self._run.attempt.job

    @property
    def attempt(self) -> int:
        return self._run.attempt.number

    @property
    def logger(self) -> JobLogger:
        if self._logger is None:
            attempt = self._run.attempt
            fields = {
                "job_id": str(attempt.id),
                "task": attempt.task,
                "queue": attempt.queue,
                "attempt": attempt.number,
            }
            self._logger = JobLogger(logger, fields)
        return self._logger

    @property
    def cancelled(self) -> bool:
        return self._run.stopped is not None

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self._report(self._run, done, total, message)

    @property
    def sync(self) -> SyncContext:
        return _SyncAttempt(self, self._budgets)

    # Not `async def`: a sync handler that forgets `.sync` awaits nothing, and must hear of it.
    def fence(self, conn: Any) -> Coroutine[Any, Any, None]:
        return self.fence_on(adapt(conn))

    def complete(self, conn: Any, result: Any = None) -> Coroutine[Any, Any, None]:
        return self.complete_on(adapt(conn), result)

    async def fence_on(self, on: Executor) -> None:
        await self._hold(on)
        if not await is_in_transaction(on):
            raise RuntimeError(NO_TRANSACTION)

    async def _hold(self, on: Executor) -> None:
        attempt = self._run.attempt
        try:
            await self._store.fence(on, attempt.id, attempt.token)
        except Exception as error:
            if failures.is_state(error, failures.COMPLETED_ALREADY):
                raise RuntimeError(COMPLETED_ALREADY) from error
            if reason := _why_stale(error):
                # Not stopped by force: the handler must be able to roll back.
                self._run.stopped = self._run.stopped or reason
                raise StaleAttempt(str(attempt.id), attempt.number) from error
            raise

    async def complete_on(self, on: Executor, result: Any = None) -> None:
        await self._hold(on)
        attempt = self._run.attempt
        stored = None if result is None else encode_result(result)
        settlement = Settlement(attempt.id, attempt.token, DONE, stored)
        unsettled = await self._store.settle(on, [settlement], durable=False)
        if unsettled:
            raise StaleAttempt(str(attempt.id), attempt.number)
        self._run.completed = True

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> BudgetBlock:
        return BudgetBlock(self._budgets, self._run, key, units, wait)

    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        await self._budgets.close(limit_key("key", key), seconds("wait", wait))

    def resource(self, kind: type[R]) -> R:
        return self._opened.get(kind)


def _why_stale(error: Exception) -> StopReason | None:
    if failures.is_state(error, failures.STALE_ATTEMPT):
        return "refused"
    return "lost" if failures.is_state(error, failures.LEASE_LOST) else None


class _SyncAttempt(SyncContext):
    def __init__(self, context: AttemptContext, budgets: Budgets) -> None:
        self._context = context
        self._budgets = budgets

    def fence(self, conn: Any) -> None:
        drive(self._context.fence_on(adapt(conn, "blocking")))

    def complete(self, conn: Any, result: Any = None) -> None:
        drive(self._context.complete_on(adapt(conn, "blocking"), result))

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> SyncBudgetBlock:
        return SyncBudgetBlock(self._budgets, self._context.budget(key, units=units, wait=wait))

    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        self._budgets.run(self._context.close_bucket(key, wait))
