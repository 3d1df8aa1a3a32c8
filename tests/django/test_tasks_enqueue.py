"""Penstock as a backend of django.tasks: what callers see."""

import dataclasses
import logging
import pickle
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("django.tasks", reason="django.tasks is in Django from 6.0 on")

from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.db import transaction
from django.tasks import TaskResultStatus, default_task_backend, task, task_backends
from django.tasks.exceptions import (
    InvalidTask,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
    TaskResultMismatch,
)
from django.tasks.signals import task_enqueued
from django.test import override_settings
from django.utils import timezone

from penstock.errors import PayloadRefused
from penstock.integrations.django import DjangoPenstock
from penstock.integrations.django.tasks import PenstockBackend
from tests.django.bakery import jobs, tasks

BACKEND = "penstock.integrations.django.tasks.PenstockBackend"

Ask = Callable[..., Any]


def blocking(call: Ask) -> Ask:
    return call


def awaited(call: Ask) -> Ask:
    """The `a…` twin of a method, awaited."""

    def wait(*args: Any, **kwargs: Any) -> Any:
        try:
            return async_to_sync(getattr(call.__self__, f"a{call.__name__}"))(*args, **kwargs)
        except Exception as error:
            # A traceback would keep the thread that asgiref has started for this.
            raise error.with_traceback(None) from None

    return wait


WAYS = pytest.mark.parametrize("way", [blocking, awaited])


def test_the_backend_does_all_that_django_asks_for() -> None:
    backend = task_backends["default"]
    assert default_task_backend == backend
    assert isinstance(backend, PenstockBackend)
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority
    assert list(backend.check()) == []


# Enqueue


@WAYS
@pytest.mark.parametrize("chosen", [tasks.knead, tasks.knead_async])
def test_what_is_enqueued_is_ready(app: DjangoPenstock, chosen: Any, way: Any) -> None:
    before = timezone.now() - timedelta(seconds=1)
    result = way(chosen.enqueue)(1, two=3)
    assert result.status == TaskResultStatus.READY
    assert not result.is_finished
    assert before < result.enqueued_at < timezone.now() + timedelta(seconds=1)
    assert result.started_at is result.last_attempted_at is result.finished_at is None
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    assert result.task == chosen
    assert (result.args, result.kwargs) == ([1], {"two": 3})
    assert (result.attempts, result.errors, result.backend) == (0, [], "default")
    assert isinstance(result.id, str)
    assert 0 < len(result.id) < 64


def test_its_job_has_the_tasks_path_for_its_name(app: DjangoPenstock) -> None:
    result = tasks.knead.enqueue(1, two=3)
    job = app.sync.get(result.id)
    assert job.task == tasks.knead.module_path == "tests.django.bakery.tasks.knead"
    assert (job.queue, job.priority, job.max_attempts) == ("default", 0, 1)


def test_queue_and_priority_are_the_jobs_own(app: DjangoPenstock) -> None:
    def job_of(chosen: Any) -> Any:
        job = app.sync.get(chosen.enqueue().id)
        return job.queue, job.priority

    assert job_of(tasks.preheat) == ("oven", 7)
    assert job_of(tasks.preheat.using(priority=-100)) == ("oven", -100)
    assert job_of(tasks.preheat.using(queue_name="default", priority=100.0)) == ("default", 100)


def test_task_overrides_attempts_and_timeout_of_its_backend(app: DjangoPenstock) -> None:
    def job_of(chosen: Any) -> Any:
        job = app.sync.get(chosen.enqueue().id)
        return job.max_attempts, job.timeout

    assert job_of(tasks.knead) == (1, 3600)
    assert job_of(tasks.knead.using(backend="patient")) == (3, 30)
    assert job_of(tasks.try_twice) == (2, 5)


@WAYS
def test_arguments_are_what_json_makes_of_them(app: DjangoPenstock, way: Any) -> None:
    result = way(tasks.knead.enqueue)((1, 2), b"rye", key={"a": (None, 1.5, True)})
    assert result.args == [[1, 2], "rye"]
    assert result.kwargs == {"key": {"a": [None, 1.5, True]}}
    found = tasks.knead.get_result(result.id)
    assert (found.args, found.kwargs) == (result.args, result.kwargs)


@WAYS
def test_arguments_that_json_has_no_form_for_are_refused(app: DjangoPenstock, way: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        way(tasks.knead.enqueue)(datetime.now(UTC))
    with pytest.raises(PayloadRefused, match="NUL"):
        way(tasks.knead.enqueue)("\0")
    assert app.sync.list().jobs == ()


def test_a_task_takes_part_in_the_transaction(app: DjangoPenstock) -> None:
    with transaction.atomic():
        kept = tasks.knead.enqueue()
        assert kept.enqueued_at is not None
        assert tasks.knead.get_result(kept.id) == kept
        with suppress(ZeroDivisionError), transaction.atomic():
            tasks.knead.enqueue()
            _ = 1 // 0
    assert [job.id for job in app.sync.list().jobs] == [kept.id]


@WAYS
def test_receivers_are_told_of_what_is_enqueued(app: DjangoPenstock, way: Any) -> None:
    told = []

    def receive(sender: Any, task_result: Any, **_: Any) -> None:
        told.append((sender, task_result))

    task_enqueued.connect(receive)
    try:
        result = way(tasks.knead.enqueue)()
    finally:
        task_enqueued.disconnect(receive)
    assert told == [(PenstockBackend, result)]


def test_what_is_enqueued_is_logged(app: DjangoPenstock, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "django.tasks"):
        result = tasks.knead.enqueue()
    [line] = caplog.messages
    assert f"id={result.id} " in line
    assert "enqueued" in line


# Defer


def test_a_task_can_be_put_off(app: DjangoPenstock) -> None:
    later = timezone.now() + timedelta(hours=1)
    result = tasks.knead.using(run_after=later).enqueue()
    assert result.status == TaskResultStatus.READY
    assert result.task.run_after == later
    assert tasks.knead.get_result(result.id) == result
    job = app.sync.get(result.id)
    assert (job.state, job.run_at) == ("scheduled", later)


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(InvalidTask, match="aware datetime"):
        tasks.knead.using(run_after=datetime.now())


def test_without_use_tz_moments_are_local(app: DjangoPenstock) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        later = datetime(2040, 7, 1, 12)
        began = timezone.now()
        result = tasks.knead.using(run_after=later).enqueue()
        assert tasks.knead.get_result(result.id) == result
        assert result.task.run_after == later
        assert began <= result.enqueued_at <= timezone.now()
        assert app.sync.get(result.id).run_at == datetime(2040, 7, 1, 3, tzinfo=UTC)


# Results


@WAYS
def test_a_result_is_found_by_its_id(app: DjangoPenstock, way: Any) -> None:
    result = way(tasks.knead.enqueue)()
    assert way(tasks.knead.get_result)(result.id) == result
    assert way(default_task_backend.get_result)(result.id) == result


@WAYS
@pytest.mark.parametrize("chosen", ["123", "no number", "", "9" * 40, 123])
def test_a_result_that_there_is_not_is_not_found(
    app: DjangoPenstock, way: Any, chosen: Any
) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        way(tasks.knead.get_result)(chosen)
    with pytest.raises(TaskResultDoesNotExist):
        way(default_task_backend.get_result)(chosen)


@WAYS
def test_a_result_of_another_task_is_a_mismatch(app: DjangoPenstock, way: Any) -> None:
    result = tasks.knead_async.enqueue()
    with pytest.raises(TaskResultMismatch, match="Task does not match"):
        way(tasks.knead.get_result)(result.id)


def test_a_result_belongs_to_the_backend_it_was_enqueued_with(app: DjangoPenstock) -> None:
    result = tasks.knead.using(backend="patient", queue_name="any").enqueue()
    found = task_backends["patient"].get_result(result.id)
    assert found == result
    assert (found.backend, found.task.queue_name) == ("patient", "any")
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(result.id)


def test_a_job_of_penstocks_own_is_no_result(app: DjangoPenstock) -> None:
    job = app.sync.enqueue(jobs.bake, "rye")
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(job.id)


def test_a_result_of_a_task_that_is_not_imported_says_so(app: DjangoPenstock) -> None:
    result = tasks.knead.enqueue()
    with app.connection.cursor() as cursor:
        cursor.execute("UPDATE penstock.job SET task = 'os.system'")
    with pytest.raises(TaskResultDoesNotExist, match=r"os\.system, which this process has not"):
        default_task_backend.get_result(result.id)


@WAYS
def test_refreshing_what_has_not_changed_changes_nothing(app: DjangoPenstock, way: Any) -> None:
    result = tasks.knead.enqueue()
    before = dataclasses.asdict(result)
    way(result.refresh)()
    assert dataclasses.asdict(result) == before


def test_results_and_tasks_can_be_pickled(app: DjangoPenstock) -> None:
    result = tasks.preheat.enqueue()
    assert pickle.loads(pickle.dumps(result)) == result
    assert pickle.loads(pickle.dumps(tasks.try_twice)) == tasks.try_twice


# What is refused


@pytest.mark.parametrize("priority", [-101, 101, 3.1])
def test_a_priority_out_of_range_is_refused(priority: float) -> None:
    with pytest.raises(InvalidTask, match="whole number between -100 and 100"):
        tasks.knead.using(priority=priority)


def test_a_queue_that_the_backend_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidTask, match="Queue 'fridge' is not valid"):
        tasks.knead.using(queue_name="fridge")
    # An empty QUEUES allows all of them, as long as Penstock can name them so.
    assert tasks.knead.using(queue_name="fridge", backend="patient").queue_name == "fridge"
    with pytest.raises(InvalidTask, match="The setting queue is 'the fridge'"):
        tasks.knead.using(queue_name="the fridge", backend="patient")


@WAYS
def test_a_task_is_looked_at_again_when_it_is_enqueued(app: DjangoPenstock, way: Any) -> None:
    preheat = tasks.preheat.using()
    backends = {"default": {"BACKEND": BACKEND, "QUEUES": ["default"]}}
    with override_settings(TASKS=backends), pytest.raises(InvalidTask, match="Queue 'oven'"):
        way(preheat.enqueue)()


def test_what_is_no_function_of_a_module_is_refused() -> None:
    def inner() -> None: ...

    for wrong in (any, inner, lambda: None):
        with pytest.raises(InvalidTask, match="module level"):
            task(wrong)


def test_a_task_that_takes_a_context_must_name_it() -> None:
    with pytest.raises(InvalidTask, match="'context'"):
        task(takes_context=True)(tasks.weigh.func)


def test_wrong_settings_of_a_task_are_refused() -> None:
    with pytest.raises(InvalidTask, match="The setting max_attempts is 0"):
        task(max_attempts=0)(tasks.weigh.func)
    with pytest.raises(InvalidTask, match="The setting timeout is -1"):
        task(timeout=-1)(tasks.weigh.func)
    with pytest.raises(TypeError, match="unknown"):
        task(unknown=1)(tasks.weigh.func)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"attempts": 3}, "has no 'attempts'; it takes max_attempts, timeout, retry"),
        ({"max_attempts": "3"}, "The setting max_attempts is '3'"),
        ({"timeout": 0}, "The setting timeout is 0"),
    ],
)
def test_wrong_options_of_a_backend_are_refused(options: dict[str, Any], told: str) -> None:
    backends = {"default": {"BACKEND": BACKEND, "OPTIONS": options}}
    with override_settings(TASKS=backends), pytest.raises(InvalidTaskBackend) as refused:
        _ = task_backends["default"]
    assert told in str(refused.value)
    assert 'TASKS["default"]["OPTIONS"]' in str(refused.value)


def test_a_backend_without_its_app_is_an_error() -> None:
    with override_settings(INSTALLED_APPS=["tests.django.bakery"]):
        errors = [found.id for found in run_checks() if found.id == "penstock.E002"]
    assert errors == ["penstock.E002", "penstock.E002"]
