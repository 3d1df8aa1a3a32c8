"""Makes the handler that runs the jobs of a task of django.tasks."""

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


def make_handler(task: Task) -> Callable[..., Any]:
    """Return a handler that runs a task's function. It takes the arguments that the job stores."""

    def run(
        ctx: Context,
        args: list[Any],
        kwargs: dict[str, Any],
        backend: str,
        run_after: str | None,
    ) -> dict[str, Any]:
        execution = Execution(task, ctx)
        task_started.send_robust(**execution.signal_arguments)
        try:
            execution.succeed(task.func(*execution.args, **kwargs))
        except BaseException as error:
            if execution.fail(error):
                task_finished.send_robust(**execution.signal_arguments)
            raise
        task_finished.send_robust(**execution.signal_arguments)
        return execution.stored

    async def arun(
        ctx: Context,
        args: list[Any],
        kwargs: dict[str, Any],
        backend: str,
        run_after: str | None,
    ) -> dict[str, Any]:
        execution = Execution(task, ctx)
        await task_started.asend_robust(**execution.signal_arguments)
        try:
            execution.succeed(await task.func(*execution.args, **kwargs))
        except asyncio.CancelledError:
            # Penstock decides what a timeout, a shutdown or a cancel means for the job.
            raise
        except BaseException as error:
            if execution.fail(error):
                await task_finished.asend_robust(**execution.signal_arguments)
            raise
        await task_finished.asend_robust(**execution.signal_arguments)
        return execution.stored

    return arun if iscoroutinefunction(task.func) else run


class Execution:
    """One attempt of a task: its arguments, its result, and the signals about it."""

    def __init__(self, task: Task, ctx: Context) -> None:
        self._job = ctx.job
        running = msgspec.structs.replace(ctx.job, attempted_at=datetime.now(UTC))
        self._result = result_of(running, task_of(running, task))
        context = (TaskContext(task_result=self._result),) if task.takes_context else ()
        self.args = (*context, *self._result.args)

    @property
    def signal_arguments(self) -> dict[str, Any]:
        """The arguments with which signals are sent."""
        backend = task_backends[self._result.backend]
        return {"sender": type(backend), "task_result": self._result}

    @property
    def stored(self) -> dict[str, Any]:
        """The result to store for the job."""
        return {RETURN_VALUE: self._result.return_value, WORKER: self._job.worker}

    def succeed(self, value: Any) -> None:
        """Record the task's return value. As in Django, raises if JSON cannot hold the value."""
        self._end(TaskResultStatus.SUCCESSFUL, _return_value=normalize_json(value))

    def fail(self, error: BaseException) -> bool:
        """Record the task's exception, and return True. Only return False if a retry follows."""
        if is_retryable(error) and self._job.failures + 1 < self._job.max_attempts:
            return False
        self._result.errors.append(error_of(describe_error(error)))
        self._end(TaskResultStatus.FAILED)
        return True

    def _end(self, status: TaskResultStatus, **values: Any) -> None:
        for name, value in {"status": status, "finished_at": timezone.now(), **values}.items():
            object.__setattr__(self._result, name, value)
