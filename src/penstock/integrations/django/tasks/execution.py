"""Runs a task of django.tasks as the handler of its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import Any

import msgspec
from django.tasks import Task, TaskContext, TaskResultStatus, task_backends
from django.tasks.signals import task_finished, task_started
from django.utils import timezone
from django.utils.json import normalize_json

from penstock.integrations.django.tasks.results import (
    RETURN_VALUE,
    WORKER,
    error_of,
    result_of,
    task_of,
)
from penstock.tasks import Context, describe_error, is_retryable


def handler_of(task: Task) -> Callable[..., Any]:
    """The handler that runs a task's function. Its parameters are what is stored with a job."""

    def run(
        ctx: Context,
        args: list[Any],
        kwargs: dict[str, Any],
        backend: str,
        run_after: str | None,
    ) -> dict[str, Any]:
        execution = Execution(task, ctx)
        task_started.send_robust(**execution.told)
        try:
            execution.succeed(task.func(*execution.args, **kwargs))
        except BaseException as error:
            if execution.fail(error):
                task_finished.send_robust(**execution.told)
            raise
        task_finished.send_robust(**execution.told)
        return execution.stored

    async def arun(
        ctx: Context,
        args: list[Any],
        kwargs: dict[str, Any],
        backend: str,
        run_after: str | None,
    ) -> dict[str, Any]:
        execution = Execution(task, ctx)
        await task_started.asend_robust(**execution.told)
        try:
            execution.succeed(await task.func(*execution.args, **kwargs))
        except asyncio.CancelledError:
            # A timeout, a shutdown, a cancel: Penstock decides what it means for the job.
            raise
        except BaseException as error:
            if execution.fail(error):
                await task_finished.asend_robust(**execution.told)
            raise
        await task_finished.asend_robust(**execution.told)
        return execution.stored

    return arun if iscoroutinefunction(task.func) else run


class Execution:
    """One attempt at a task: what it is called with, what came of it, what receivers are told."""

    def __init__(self, task: Task, ctx: Context) -> None:
        self._job = ctx.job
        running = msgspec.structs.replace(ctx.job, attempted_at=datetime.now(UTC))
        self._result = result_of(running, task_of(running, task))
        context = (TaskContext(task_result=self._result),) if task.takes_context else ()
        self.args = (*context, *self._result.args)

    @property
    def told(self) -> dict[str, Any]:
        """What a signal carries."""
        backend = task_backends[self._result.backend]
        return {"sender": type(backend), "task_result": self._result}

    @property
    def stored(self) -> dict[str, Any]:
        return {RETURN_VALUE: self._result.return_value, WORKER: self._job.worker}

    def succeed(self, value: Any) -> None:
        """The task has returned. What JSON has no form for is its failure, as Django has it."""
        self._end(TaskResultStatus.SUCCESSFUL, _return_value=normalize_json(value))

    def fail(self, error: BaseException) -> bool:
        """The task has raised: whether that is its end, and not one of several attempts."""
        if is_retryable(error) and self._job.failures + 1 < self._job.max_attempts:
            return False
        self._result.errors.append(error_of(describe_error(error)))
        self._end(TaskResultStatus.FAILED)
        return True

    def _end(self, status: TaskResultStatus, **values: Any) -> None:
        for name, value in {"status": status, "finished_at": timezone.now(), **values}.items():
            object.__setattr__(self._result, name, value)
