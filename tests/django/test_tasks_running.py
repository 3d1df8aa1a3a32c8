"""Penstock as a backend of django.tasks: what becomes of a task in a worker."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("django.tasks", reason="django.tasks is in Django from 6.0 on")

from asgiref.sync import async_to_sync
from django.db import connection
from django.tasks import TaskResult, TaskResultStatus
from django.tasks.signals import task_finished, task_started
from django.utils import timezone

from penstock.integrations.django import DjangoPenstock
from penstock.integrations.django.tasks import PenstockBackend
from tests.django.bakery import tasks
from tests.django.bakery.models import Bread
from tests.fixtures.worker import worker_of

Told = list[tuple[str, Any, TaskResult, TaskResultStatus, Any]]


@pytest.fixture
def told() -> Iterator[Told]:
    """What receivers of a worker's signals are told, and what they read of the database then."""
    heard: Told = []

    def receive(name: str) -> Any:
        def receiver(sender: Any, task_result: TaskResult, **_: Any) -> None:
            read = Bread.objects.count()
            heard.append((name, sender, task_result, task_result.status, read))

        return receiver

    started, finished = receive("started"), receive("finished")
    task_started.connect(started)
    task_finished.connect(finished)
    yield heard
    task_started.disconnect(started)
    task_finished.disconnect(finished)


def ended(result: TaskResult) -> TaskResult:
    """The result, refreshed, after checks of all that holds for whatever has ended."""
    result.refresh()
    assert result.is_finished
    assert result.enqueued_at <= result.started_at <= result.last_attempted_at
    assert result.last_attempted_at <= result.finished_at
    return result


# Success


@pytest.mark.parametrize("chosen", [tasks.knead, tasks.knead_async])
def test_a_task_that_returns_nothing_is_successful(
    app: DjangoPenstock, work: Any, chosen: Any
) -> None:
    result = chosen.enqueue(1, two=3)
    work()
    assert ended(result).status == TaskResultStatus.SUCCESSFUL
    assert result.return_value is None
    assert (result.args, result.kwargs, result.errors) == ([1], {"two": 3}, [])
    assert (result.attempts, result.worker_ids) == (1, ["baker"])
    assert result.task == chosen


@pytest.mark.parametrize(
    ("chosen", "value"), [(tasks.weigh, 42), (tasks.weigh_async, {"grams": [42, None]})]
)
def test_what_a_task_returns_is_kept(
    app: DjangoPenstock, work: Any, chosen: Any, value: Any
) -> None:
    result = async_to_sync(chosen.aenqueue)()
    work()
    assert chosen.get_result(result.id).return_value == value
    async_to_sync(result.arefresh)()
    assert result.return_value == value


def test_arguments_come_back_as_json_has_them(app: DjangoPenstock, work: Any) -> None:
    given = {"text": "Brötchen ☕", "numbers": [1, 2.5, -3, 2**62], "nothing": None, "deep": [[{}]]}
    result = tasks.echo.enqueue(given)
    work()
    assert ended(result).return_value == given


@pytest.mark.parametrize("chosen", [tasks.bake, tasks.bake_async])
def test_a_task_uses_the_orm(app: DjangoPenstock, work: Any, chosen: Any) -> None:
    result = chosen.enqueue("rye")
    work()
    assert ended(result).return_value == Bread.objects.get(name="rye").pk


def test_a_task_may_take_its_context(app: DjangoPenstock, work: Any) -> None:
    result = tasks.look.enqueue()
    work()
    assert ended(result).return_value == [result.id, 1, "RUNNING", ["baker"], "default"]


def test_a_task_of_another_backend_may_be_run_here_too(app: DjangoPenstock, work: Any) -> None:
    result = tasks.at_once.using(backend="default").enqueue()
    assert result.status == TaskResultStatus.READY
    work()
    assert ended(result).return_value == "done"


# Failure


@pytest.mark.parametrize(
    ("chosen", "kind", "message"),
    [
        (tasks.burn, ValueError, "This bread is burnt"),
        (tasks.burn_async, ValueError, "This bread is burnt"),
        (tasks.leave, SystemExit, "The baker leaves"),
        (tasks.interrupt, KeyboardInterrupt, "Somebody knocks"),
    ],
)
def test_a_task_that_raises_has_failed(
    app: DjangoPenstock, work: Any, chosen: Any, kind: type, message: str
) -> None:
    result = chosen.enqueue()
    work()
    assert ended(result).status == TaskResultStatus.FAILED
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    [error] = result.errors
    assert error.exception_class is kind
    assert error.traceback.startswith("Traceback (most recent call last)")
    assert error.traceback.endswith(f"{kind.__name__}: {message}\n")
    assert (result.attempts, result.worker_ids) == (1, ["baker"])


def test_an_exception_that_cannot_be_stored_is_told(app: DjangoPenstock, work: Any) -> None:
    result = tasks.burn_oddly.enqueue()
    work()
    [error] = ended(result).errors
    assert error.exception_class is ValueError
    assert 'ValueError(ValueError("Both are burnt"))' in error.traceback


def test_a_return_value_that_json_has_no_form_for_is_a_failure(
    app: DjangoPenstock, work: Any
) -> None:
    result = tasks.give_a_function.enqueue()
    work()
    assert ended(result).status == TaskResultStatus.FAILED
    [error] = result.errors
    assert error.exception_class is TypeError
    assert "Unsupported type" in error.traceback


def test_a_task_that_takes_too_long_has_failed(app: DjangoPenstock, work: Any) -> None:
    result = tasks.rise.enqueue()
    work()
    [error] = ended(result).errors
    assert result.status == TaskResultStatus.FAILED
    assert error.exception_class is TimeoutError


def test_a_task_that_is_cancelled_has_failed(app: DjangoPenstock) -> None:
    result = tasks.knead.enqueue()
    app.sync.cancel(result.id)
    result.refresh()
    assert (result.status, result.errors, result.attempts) == (TaskResultStatus.FAILED, [], 0)


def test_a_task_that_was_lost_with_its_workers_has_failed(app: DjangoPenstock, work: Any) -> None:
    result = tasks.knead.enqueue()
    with connection.cursor() as cursor:
        for loss in range(3):
            cursor.execute(
                "SELECT id, token FROM penstock.claim_v1(penstock.open_lease_v1('ghost', 60), "
                "'default', ARRAY[''], ARRAY[0]::smallint[], ARRAY['-infinity'::timestamptz], "
                "ARRAY[0]::bigint[], NULL, 1)"
            )
            # Only an attempt that is known to have begun costs its job a loss.
            cursor.execute(
                "SELECT penstock.mark_started_v1(ARRAY[%s], ARRAY[%s])", cursor.fetchone()
            )
            result.refresh()
            assert (result.status, result.attempts) == (TaskResultStatus.RUNNING, loss + 1)
            cursor.execute("DELETE FROM penstock.lease")
            cursor.execute("SELECT penstock.rescue_v1(10)")
    assert ended(result).status == TaskResultStatus.FAILED
    assert result.attempts == 3
    assert {error.exception_class.__name__ for error in result.errors} == {"PenstockError"}


# Attempts


def test_a_task_is_tried_again_as_often_as_it_may_be(
    app: DjangoPenstock, work: Any, told: Told
) -> None:
    result = tasks.succeed_at.using(queue_name="oven").enqueue(3)
    seen = []
    for _ in range(3):
        work()
        result.refresh()
        seen.append((result.status, result.attempts, len(result.errors)))
        with connection.cursor() as cursor:
            cursor.execute("UPDATE penstock.job SET run_at = now() - interval '1 second'")
    ready, successful = TaskResultStatus.READY, TaskResultStatus.SUCCESSFUL
    assert seen == [(ready, 1, 1), (ready, 2, 2), (successful, 3, 2)]
    assert ended(result).return_value == 3
    assert result.started_at < result.last_attempted_at
    assert [error.traceback.splitlines()[-1] for error in result.errors] == [
        "ValueError: attempt 1",
        "ValueError: attempt 2",
    ]
    # What is not its end is no finish.
    assert [(name, status) for name, _, _, status, _ in told] == [
        ("started", TaskResultStatus.RUNNING),
        ("started", TaskResultStatus.RUNNING),
        ("started", TaskResultStatus.RUNNING),
        ("finished", TaskResultStatus.SUCCESSFUL),
    ]


# Defer and priority


def test_a_task_that_is_put_off_waits_for_its_time(app: DjangoPenstock, work: Any) -> None:
    later = tasks.weigh.using(run_after=timezone.now() + timedelta(hours=1)).enqueue()
    due = tasks.weigh.using(run_after=timezone.now() - timedelta(hours=1)).enqueue()
    work()
    later.refresh()
    assert later.status == TaskResultStatus.READY
    assert ended(due).return_value == 42
    assert tasks.weigh.get_result(due.id).task.run_after == due.task.run_after


def test_a_higher_priority_runs_first(app: DjangoPenstock, work: Any) -> None:
    tasks.ORDER.clear()
    for name, priority in [("low", -5), ("none", 0), ("high", 50), ("low too", -5)]:
        tasks.note.using(priority=priority).enqueue(name)
    work(slots=1)
    assert tasks.ORDER == ["high", "none", "low", "low too"]


# Signals


@pytest.mark.parametrize(
    ("chosen", "status"),
    [
        (tasks.knead, TaskResultStatus.SUCCESSFUL),
        (tasks.knead_async, TaskResultStatus.SUCCESSFUL),
        (tasks.burn, TaskResultStatus.FAILED),
        (tasks.burn_async, TaskResultStatus.FAILED),
    ],
)
def test_receivers_are_told_when_a_task_starts_and_finishes(
    app: DjangoPenstock, work: Any, told: Told, chosen: Any, status: Any
) -> None:
    result = chosen.enqueue()
    work()
    assert [(name, now) for name, _, _, now, _ in told] == [
        ("started", TaskResultStatus.RUNNING),
        ("finished", status),
    ]
    for _, sender, seen, _, read in told:
        assert sender is PenstockBackend
        assert (seen.id, seen.task, seen.attempts) == (result.id, chosen, 1)
        assert read == 0
    final = told[-1][2]
    assert final.finished_at is not None
    assert [error.exception_class for error in final.errors] == (
        [ValueError] if status == TaskResultStatus.FAILED else []
    )


def test_a_receiver_that_fails_hurts_no_task(app: DjangoPenstock, work: Any) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("a receiver")

    task_started.connect(fail)
    task_finished.connect(fail)
    try:
        result = tasks.weigh.enqueue()
        work()
    finally:
        task_started.disconnect(fail)
        task_finished.disconnect(fail)
    assert ended(result).return_value == 42


@pytest.mark.parametrize("chosen", [tasks.burn, tasks.burn_async])
def test_start_and_end_of_a_task_are_logged(
    app: DjangoPenstock, work: Any, caplog: pytest.LogCaptureFixture, chosen: Any
) -> None:
    good, bad = tasks.weigh.enqueue(), chosen.enqueue()
    with caplog.at_level(logging.INFO, "django.tasks"):
        work()
    lines = {
        record.getMessage(): record for record in caplog.records if record.name == "django.tasks"
    }
    path = tasks.weigh.module_path
    assert lines[f"Task id={good.id} path={path} state=RUNNING"].levelname == "INFO"
    assert lines[f"Task id={good.id} path={path} state=SUCCESSFUL"].exc_info is None
    failed = lines[f"Task id={bad.id} path={chosen.module_path} state=FAILED"]
    assert failed.levelname == "ERROR"
    assert failed.exc_info
    assert str(failed.exc_info[1]) == "This bread is burnt"


# The worker


def test_a_worker_says_which_tasks_it_runs(app: DjangoPenstock) -> None:
    """So that jobs whose task nobody runs can be told."""

    async def look() -> list[str]:
        async with app, worker_of(app):
            return app.tasks.names()

    assert tasks.weigh.module_path in asyncio.run(look())


def test_nothing_is_imported_because_a_row_names_it(app: DjangoPenstock, work: Any) -> None:
    result = tasks.echo.enqueue("ls")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE penstock.job SET task = 'antigravity.fly'")
    work()
    job = app.sync.get(result.id)
    assert (job.state, job.reason) == ("scheduled", "unknown_task")
