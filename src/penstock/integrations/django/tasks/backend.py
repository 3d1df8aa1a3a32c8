"""The backend for django.tasks, and the tasks of it that this process has imported."""

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
from penstock.integrations.django.discovery import OURS
from penstock.integrations.django.project import project_app
from penstock.integrations.django.tasks.execution import handler_of
from penstock.integrations.django.tasks.results import result_of, task_of
from penstock.job import READY, Job
from penstock.tasks import Options
from penstock.tasks import Task as Handled
from penstock.tasks import task as handle


@dataclass(frozen=True, slots=True, kw_only=True)
class PenstockTask(Task):
    """What `@task` makes for Penstock's backend; Django passes on what it does not know itself.

    @task(max_attempts=5, timeout=60)
    def send_receipt(order_id): ...

    What is not given here is the backend's to say, in its OPTIONS.
    """

    max_attempts: int | None = None
    timeout: float | None = None


_handled: dict[Callable[..., Any], Handled[..., Any]] = {}


def known_tasks() -> Iterator[Task]:
    """Every task in a module that has been imported, once."""
    seen = set()
    for module in tuple(sys.modules.values()):
        for value in tuple(getattr(module, "__dict__", {}).values()):
            if _is_task(value) and value.module_path not in seen:
                seen.add(value.module_path)
                yield value


def find_task(path: str) -> Task | None:
    """The task of this path, if its module has been imported."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    if _is_task(found):
        return found
    return next((task for task in known_tasks() if task.module_path == path), None)


def _is_task(value: object) -> bool:
    # Not isinstance, which asks the value: Django's lazy objects would come to life.
    return issubclass(type(value), Task)


def as_penstock(task: Task) -> Handled[..., Any]:
    """The task as Penstock runs it, under its path: what people see in lists and statistics."""
    if task.func not in _handled:
        _handled[task.func] = handle(name=task.module_path)(handler_of(task))
    return _handled[task.func]


OPTIONS = ("max_attempts", "timeout", "retry")
# Django's tasks have one attempt unless their author says that they bear more.
DEFAULTS: Mapping[str, Any] = {"max_attempts": 1}


class PenstockBackend(BaseTaskBackend):
    """Tasks of django.tasks as jobs, in the transaction that Django has open.

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
        self._defaults = {**DEFAULTS, **_checked(alias, self.options)}

    def validate_task(self, task: Task) -> None:
        # A check would tell, but `manage.py check` may import the tasks too late for it.
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
            hint=f'Add "{OURS}" to INSTALLED_APPS.',
            id="penstock.E002",
        )
        return [missing]

    def _handled(self, task: Task) -> Handled[..., Any]:
        """The task as Penstock enqueues it, with the options that its jobs get."""
        own = {name: getattr(task, name, None) for name in ("max_attempts", "timeout")}
        return as_penstock(task).options(
            **self._defaults | {name: value for name, value in own.items() if value is not None},
            queue=task.queue_name,
            priority=int(task.priority),
            run_at=_moment(task),
        )


def _is_installed() -> bool:
    # Before the apps are known, tasks may be imported by those that come first; and tests may hide
    # installed apps for a while.
    named = any(f"{each}.".startswith(f"{OURS}.") for each in settings.INSTALLED_APPS)
    return named or not apps.apps_ready or apps.is_installed(OURS)


def _moment(task: Task) -> datetime | None:
    """When the task may run; without USE_TZ Django's moments are local ones."""
    moment: datetime | None = task.run_after
    if moment is not None and timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return moment


def _checked(alias: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    place = f'TASKS["{alias}"]["OPTIONS"]'
    if unknown := given.keys() - set(OPTIONS):
        raise InvalidTaskBackend(
            f"{place} has no {sorted(map(str, unknown))[0]!r}; it takes {', '.join(OPTIONS)}."
        )
    try:
        Options().updated(given)
    except ConfigError as error:
        raise InvalidTaskBackend(f"{place} is wrong: {error}") from error
    return given


def _as_enqueued(job: Job) -> Job:
    """A worker may have been quick: what the caller gets is the job as it was enqueued."""
    return msgspec.structs.replace(
        job,
        state=READY,
        attempted_at=None,
        finished_at=None,
        errors=(),
        result=None,
        worker=None,
    )
