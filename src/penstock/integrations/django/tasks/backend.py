"""The backend for django.tasks, and the tasks that this process has imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.apps import apps
from django.conf import settings
from django.core import checks
from django.tasks import Task, TaskResult
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone
from django.utils.json import normalize_json

from penstock.errors import ConfigError
from penstock.integrations.django.discovery import OWN_NAME
from penstock.integrations.django.project import project_app
from penstock.integrations.django.tasks.execution import make_handler
from penstock.integrations.django.tasks.results import result_of, task_of
from penstock.job import READY, Job
from penstock.tasks import Options
from penstock.tasks import Task as Handled
from penstock.tasks import task as handle


@dataclass(frozen=True, slots=True, kw_only=True)
class PenstockTask(Task):
    """A task of Penstock's backend, with options that Django's `@task` passes on to it.

    @task(max_attempts=5, timeout=60)
    def send_receipt(order_id): ...

    Options that are left out have the values of the backend's OPTIONS.
    """

    max_attempts: int | None = None
    timeout: float | None = None


_penstock_tasks: dict[Callable[..., Any], Handled[..., Any]] = {}


def known_tasks() -> Iterator[Task]:
    """Yield each task that an imported module contains, once."""
    seen = set()
    for module in tuple(sys.modules.values()):
        for value in tuple(getattr(module, "__dict__", {}).values()):
            if _is_task(value) and value.module_path not in seen:
                seen.add(value.module_path)
                yield value


def find_task(path: str) -> Task | None:
    """Return the task of this path, or None if its module is not imported."""
    module, _, name = path.rpartition(".")
    value = getattr(sys.modules.get(module), name, None)
    if _is_task(value):
        return value
    return next((task for task in known_tasks() if task.module_path == path), None)


def _is_task(value: object) -> bool:
    # isinstance would ask the value for its class, and so evaluate Django's lazy objects.
    return issubclass(type(value), Task)


def as_penstock(task: Task) -> Handled[..., Any]:
    """Return the Penstock task that runs a task of django.tasks. Its name is the task's path."""
    if task.func not in _penstock_tasks:
        _penstock_tasks[task.func] = handle(name=task.module_path)(make_handler(task))
    return _penstock_tasks[task.func]


OPTIONS = ("max_attempts", "timeout", "retry")
# A task of django.tasks has one attempt, unless its author says that it may be repeated.
DEFAULTS: Mapping[str, Any] = {"max_attempts": 1}


class PenstockBackend(BaseTaskBackend):
    """Enqueues tasks of django.tasks as jobs, in the open transaction of Django.

    TASKS = {
        "default": {
            "BACKEND": "penstock.integrations.django.tasks.PenstockBackend",
            "QUEUES": ["default", "email"],
            "OPTIONS": {"max_attempts": 5, "timeout": 600},
        }
    }
    """

    task_class = PenstockTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self._defaults = {**DEFAULTS, **_check_options(alias, self.options)}

    def validate_task(self, task: Task) -> None:
        # Django's checks may run before the tasks are imported, so this is checked here as well.
        if missing := self.check():
            raise InvalidTask(f"{missing[0].msg} {missing[0].hint}")
        super().validate_task(task)
        try:
            self._handled(task)
        except ConfigError as error:
            raise InvalidTask(str(error)) from error

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        self.validate_task(task)
        run_after = _moment(task)
        request = self._handled(task).prepare(
            args=normalize_json(args),
            kwargs=normalize_json(kwargs),
            backend=self.alias,
            run_after=run_after and run_after.isoformat(),
        )
        jobs = project_app().sync
        [enqueued] = jobs.enqueue_many([request])
        result = result_of(_as_enqueued(jobs.get(enqueued)), task)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        job = project_app().sync.find(str(result_id))
        if job is None or job.args.get("backend") != self.alias:
            raise TaskResultDoesNotExist(result_id)
        task = find_task(job.task)
        if task is None:
            raise TaskResultDoesNotExist(
                f"Job {job.id} is of the task {job.task}, which this process has not imported. "
                'Write it in one of PENSTOCK["MODULES"], or import its module.'
            )
        return result_of(job, task_of(job, task))

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        if _is_installed():
            return []
        missing = checks.Error(
            f"The task backend {self.alias!r} is Penstock's, but its app is not installed.",
            hint=f'Add "{OWN_NAME}" to INSTALLED_APPS.',
            id="penstock.E002",
        )
        return [missing]

    def _handled(self, task: Task) -> Handled[..., Any]:
        """Return the Penstock task for a task of django.tasks, with the options of its jobs."""
        values = {name: getattr(task, name, None) for name in ("max_attempts", "timeout")}
        return as_penstock(task).options(
            **self._defaults | {name: value for name, value in values.items() if value is not None},
            queue=task.queue_name,
            priority=int(task.priority),
            run_at=_moment(task),
        )


def _is_installed() -> bool:
    # The first apps may import tasks while Django still loads the others. Tests may hide installed
    # apps for a while.
    named = any(f"{each}.".startswith(f"{OWN_NAME}.") for each in settings.INSTALLED_APPS)
    return named or not apps.apps_ready or apps.is_installed(OWN_NAME)


def _moment(task: Task) -> datetime | None:
    """Return the time from which the task may run, or None. A local time gets a time zone."""
    moment: datetime | None = task.run_after
    if moment is not None and timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return moment


def _check_options(alias: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    setting = f'TASKS["{alias}"]["OPTIONS"]'
    if unknown := options.keys() - set(OPTIONS):
        raise InvalidTaskBackend(
            f"{setting} has no {sorted(map(str, unknown))[0]!r}; it takes {', '.join(OPTIONS)}."
        )
    try:
        Options().updated(options)
    except ConfigError as error:
        raise InvalidTaskBackend(f"{setting} is wrong: {error}") from error
    return options


def _as_enqueued(job: Job) -> Job:
    """Return the job as it was enqueued, even if a quick worker has started it already."""
    return msgspec.structs.replace(
        job,
        state=READY,
        attempted_at=None,
        finished_at=None,
        errors=(),
        result=None,
        worker=None,
    )
