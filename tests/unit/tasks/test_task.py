import asyncio
import inspect
import runpy
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import penstock
from penstock.backoff import Exponential, Fixed, Function, Listed
from penstock.errors import ConfigError, NotRetryable, Retryable
from penstock.tasks import (
    AsyncContextTask,
    AsyncTask,
    Context,
    Registry,
    SyncContextTask,
    SyncTask,
    Task,
    TaskDecorator,
    task,
)
from penstock.tasks.settings import Process
from tests.unit.tasks import handlers, hidden_context

HERE = "tests.unit.tasks.test_task"
CONTEXT = cast(Context, object())


@task
async def greet(name: str) -> str:
    """Say hello."""
    return f"Hello {name}"


@task(queue="mail", max_attempts=3)
def count(ctx: Context, number: int, *, step: int = 1) -> int:
    return number + step


@task
def plain(number: int) -> int:
    return number


@task(name="contextual")
async def contextual(ctx: Context) -> Context:
    return ctx


def test_a_task_is_still_the_function_it_was() -> None:
    assert asyncio.run(greet("Ada")) == "Hello Ada"
    assert plain(3) == 3
    assert greet.__doc__ == "Say hello."
    assert greet.__name__ == "greet"
    assert inspect.signature(greet) == inspect.signature(greet.fn)


def test_a_direct_call_passes_the_context_itself() -> None:
    assert count(CONTEXT, 1, step=2) == 3
    assert asyncio.run(contextual(CONTEXT)) is CONTEXT


def test_the_class_says_how_the_handler_is_called() -> None:
    tasks: list[Task[..., Any]] = [greet, plain, contextual, count]
    assert [type(made) for made in tasks] == [
        AsyncTask,
        SyncTask,
        AsyncContextTask,
        SyncContextTask,
    ]
    assert [made.is_async for made in tasks] == [True, False, True, False]
    assert [made.takes_context for made in tasks] == [False, False, True, True]


def test_the_context_is_found_also_where_annotations_are_text() -> None:
    assert handlers.with_context.takes_context
    assert not handlers.without_context.takes_context
    assert handlers.with_context.prepare(1).args == '{"number":1}'


def test_context_imported_for_type_checking_only_is_refused() -> None:
    with pytest.raises(ConfigError, match="not only under TYPE_CHECKING"):
        task(hidden_context.handler)


def test_a_task_may_name_a_class_that_is_defined_after_it() -> None:
    request = handlers.of_a_later_class.prepare(handlers.Later(1))
    assert handlers.of_a_later_class.decode(request.args, 1) == ((handlers.Later(1),), {})


def test_class_imported_for_type_checking_only_is_refused() -> None:
    with pytest.raises(ConfigError, match="The annotation 'Decimal' of price"):
        handlers.of_a_hidden_class.check()


def test_a_context_that_is_not_first_is_refused() -> None:
    @task
    def handler(number: int, ctx: Context) -> None: ...

    with pytest.raises(
        ConfigError, match="the type Context, which only the first parameter may have"
    ):
        handler.check()


def test_the_name_is_module_and_function_unless_given() -> None:
    @task
    def inner() -> None: ...

    assert greet.name == f"{HERE}.greet"
    assert contextual.name == "contextual"
    assert inner.name == f"{HERE}.test_the_name_is_module_and_function_unless_given.inner"


SCRIPT = """
from penstock.tasks import task
@task
def send() -> None: ...
print(send.name)
"""


def test_in_a_script_the_file_names_the_module(tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text(SCRIPT)
    source = str(Path(penstock.__file__).parents[1])
    for command, folder in (["shop.py"], tmp_path), (["-m", "shop"], tmp_path):
        run = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env={"PYTHONPATH": source},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout == "shop.send\n"
    assert runpy.run_path(str(script), run_name="shop")["send"].name == "shop.send"


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def variable(*numbers: int) -> None: ...


@pytest.mark.parametrize(
    "fn",
    [print, 5, generator, async_generator, variable, lambda: None],
    ids=["built in", "number", "generator", "async generator", "variable", "lambda"],
)
def test_what_cannot_be_a_handler_is_refused(fn: Any) -> None:
    with pytest.raises(ConfigError):
        task(fn)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"name": "a b"}, "name"),
        ({"name": ""}, "name"),
        ({"queue": "a/b"}, "queue"),
        ({"priority": 101}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"timeout": 0}, "timeout"),
        ({"retry": 5}, "retry"),
        ({"retry_on": ValueError}, "retry_on"),
        ({"discard_on": (int,)}, "discard_on"),
        ({"discard_on": "ab"}, "discard_on"),
        ({"resources": ("db",)}, "resources"),
        ({"args_version": 0}, "args_version"),
        ({"upcasters": {1: len}}, "upcasters"),
        ({"args_version": 3, "upcasters": {1: len}}, "upcasters"),
        ({"args_version": 2, "upcasters": {0: len, 1: len}}, "upcasters"),
        ({"args_version": 2, "upcasters": {1: 5}}, "upcasters"),
        ({"args_limit": 0}, "args_limit"),
    ],
)
def test_a_wrong_setting_is_named(settings: Any, setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        task(**settings)(handlers.unregistered)
    assert caught.value.setting == setting


def test_a_setting_that_does_not_exist_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="no setting 'retries'; it has args_limit, args_version"):
        task(retries=5)(handlers.unregistered)  # type: ignore[call-overload]


def test_settings_of_a_decorator_add_up() -> None:
    made = task(queue="mail")(priority=3)(handlers.unregistered)
    assert (made.defaults.queue, made.defaults.priority) == ("mail", 3)


def test_a_decorator_of_an_app_registers_what_it_makes() -> None:
    registry = Registry()
    app_task = TaskDecorator(registry.add)
    first = app_task(handlers.unregistered)
    second = app_task(name="second")(handlers.unregistered)
    assert list(registry) == [first, second]


def test_a_job_may_bring_its_own_retry_policy() -> None:
    made = task(retry=Function(lambda _: 1.0))(handlers.unregistered)
    assert made.policy() is made.settings.retry
    assert made.policy({"kind": "fixed", "seconds": 5}) == Fixed(5)
    assert made.policy({"kind": "listed", "seconds": [1]}) == Listed([1])
    assert plain.policy() == Exponential()


def test_a_broken_stored_policy_falls_back_to_the_tasks_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert plain.policy({"kind": "magic"}) == Exponential()
    assert "broken retry policy" in caplog.text


class Missing(LookupError): ...


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (RuntimeError(), True),
        (ValueError(), False),
        (UnicodeError(), True),
        (NotRetryable("no"), False),
        (Retryable("busy"), True),
        (Missing(), True),
    ],
    ids=repr,
)
def test_the_nearest_class_decides_whether_to_try_again(error: Exception, retryable: bool) -> None:
    made = task(discard_on=(ValueError,))(handlers.unregistered)
    if isinstance(error, UnicodeError):
        made = task(discard_on=(ValueError,), retry_on=(UnicodeError,))(handlers.unregistered)
    assert made.failed(error).retryable is retryable


def test_with_retry_on_only_those_errors_are_tried_again() -> None:
    made = task(retry_on=(OSError,))(handlers.unregistered)
    assert made.failed(ConnectionError()).retryable
    assert made.failed(Retryable("busy")).retryable
    assert not made.failed(RuntimeError()).retryable


def test_a_failure_carries_retry_after_and_who_ran_it() -> None:
    failed = plain.failed(Retryable("busy", after=5), attempt=2, worker="w1")
    assert failed.after == 5
    assert (failed.error.attempt, failed.error.worker) == (2, "w1")
    assert failed.error.type == "penstock.errors.Retryable"
    assert plain.failed(RuntimeError()).after is None


def test_configured_task_runs_elsewhere_and_stays_the_same_task() -> None:
    @task(retry=Fixed(5))
    def read(path: str) -> None: ...

    other = read.configured(isolate=Process(memory="128MB"), retry=Fixed(1))
    assert other.is_same(read)
    assert (other.settings.isolate, other.settings.retry) == (Process(memory="128MB"), Fixed(1))
    assert (read.settings.isolate, read.settings.retry) == (None, Fixed(5))


def test_configured_task_takes_only_how_it_is_run() -> None:
    @task
    def read(path: str) -> None: ...

    with pytest.raises(TypeError, match="isolate and retry"):
        read.configured(queue="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigError):
        read.configured(isolate="512MB")  # type: ignore[arg-type]
