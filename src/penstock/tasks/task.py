"""Tasks: functions with a name and settings that run as jobs, and can still be called directly."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from inspect import Parameter
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
)

from msgspec.structs import replace

from penstock.backoff import Policy, load_policy
from penstock.errors import ConfigError, Misuse, Retryable
from penstock.outcome import Cancel, Discard, Done, Failed, Retry, Snooze
from penstock.tasks.arguments import Arguments
from penstock.tasks.handler.context import BatchContext, Context, Item
from penstock.tasks.handler.failure import describe_error, is_retryable
from penstock.tasks.keys import (
    check_limit_keys,
    check_unique_args,
    fill_limit_keys,
    fill_unique_key,
)
from penstock.tasks.options import OptionValues
from penstock.tasks.parameters import BY_POSITION, Parameters
from penstock.tasks.reader import Call
from penstock.tasks.request import Request
from penstock.tasks.settings import (
    RunValues,
    TaskSettings,
    TaskValues,
    check_names,
    make_settings,
    place_of,
    reconfigure,
)

WRAP_REMEDY = "Write a function (def or async def) that calls it, and put @app.task on that."


def check_function(fn: Any) -> None:
    """Raise Misuse unless a worker can run jobs of this function."""
    if not inspect.isfunction(fn):
        raise Misuse(_explain_no_function(fn))
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise Misuse(
            f"{fn.__qualname__} is a generator, and a task returns its result: return a list "
            "instead of yielding, or enqueue a job for each part."
        )
    for place, parameter in enumerate(inspect.signature(fn).parameters.values()):
        if parameter.annotation is parameter.empty:
            _check_unannotated(fn, parameter.name, is_first=place == 0)


def _check_unannotated(fn: Any, name: str, *, is_first: bool) -> None:
    """Raise Misuse for a `self`, `cls` or `ctx` without annotation.

    Otherwise such a parameter would count as an argument of the job.
    """
    if is_first and name in ("self", "cls"):
        raise Misuse(
            f"{fn.__qualname__} is a method: its first parameter is {name}, and a job has no "
            "object to pass there. Write a function that loads the object, such as by its id, and "
            "put @app.task on that. If the parameter is meant for the context of the attempt, "
            "write `ctx: Context` (from penstock import Context)."
        )
    if name == "ctx":
        place = "The first parameter" if is_first else "A parameter"
        raise Misuse(
            f"{place} of {fn.__qualname__} is called ctx and has no annotation, so each job would "
            "need an argument of that name. Write `ctx: Context` (from penstock import Context), "
            "as the first one, for the context of the attempt, or give an argument another name."
        )


def _explain_no_function(fn: Any) -> str:
    match fn:
        case Task():
            return f"{fn.name} is a task already. Write @app.task above it only once."
        case str():
            return (
                f"@app.task decorates a function, and got the text {fn!r}. To name a task, write "
                f"@app.task(name={fn!r})."
            )
        case staticmethod() | classmethod():
            return (
                f"@app.task cannot decorate a @{type(fn).__name__}. Put it on a function outside "
                "the class."
            )
        case type():
            return (
                f"@app.task decorates a function, and {fn.__qualname__} is a class. {WRAP_REMEDY}"
            )
        case partial():
            return f"@app.task decorates a function, and got a functools.partial. {WRAP_REMEDY}"
    if inspect.ismethod(fn):
        return (
            f"{fn.__qualname__} is a method that is bound to an object, and a worker has no such "
            "object. Write a function that loads the object, such as by its id, and put "
            "@app.task on that."
        )
    name = getattr(fn, "__qualname__", None) or f"an object of type {type(fn).__qualname__}"
    return f"@app.task decorates a Python function, and got {name}. {WRAP_REMEDY}"


# The name under which a job's argument is stored, whatever the handler calls its list.
ITEM: Final = "item"
BATCH_PARAMETERS: Final = (
    "items: list[Item[…]], after an optional ctx: BatchContext, and nothing else"
)


class ItemParameters(Parameters):
    """The parameters of a batch task. Each job has one argument, `item`: the value of its item."""

    context = BatchContext

    def _arguments(self, parameters: list[Parameter]) -> list[Parameter]:
        if len(parameters) != 1 or parameters[0].kind not in BY_POSITION:
            shown = ", ".join(map(str, parameters))
            raise Misuse(f"{self.task}({shown}) has a batch, so it takes {BATCH_PARAMETERS}.")
        self._items = parameters[0]
        return [Parameter(ITEM, Parameter.POSITIONAL_OR_KEYWORD)]

    def hints(self) -> dict[str, Any]:
        hint = self._hint(self._items)
        if hint is Any or hint is list:
            return {ITEM: Any}
        kinds = get_args(hint)
        is_list = isinstance(get_origin(hint), type) and issubclass(list, get_origin(hint))
        if not is_list or len(kinds) != 1 or (get_origin(kinds[0]) or kinds[0]) is not Item:
            raise Misuse(f"{self.task}({self._items}) has a batch, so it takes {BATCH_PARAMETERS}.")
        return {ITEM: next(iter(get_args(kinds[0])), Any)}


logger = logging.getLogger(__name__)

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


# What to write instead of the methods that tasks of other libraries have: of Celery, Dramatiq,
# Procrastinate, taskiq, Django and others.
_ENQUEUE: Final = (
    "enqueue its job with `await app.enqueue({task}, …)`, or `app.sync.enqueue({task}, …)` where "
    "you cannot await. Options go with the task: `{task}.options(queue=…, delay=…)`"
)
_IN_TRANSACTION: Final = (
    "enqueue its job in your transaction, `app.inside(connection).enqueue({task}, …)`: it is there "
    "if that commits. In Django `app.sync.enqueue({task}, …)` is part of the transaction by itself"
)
_IN_WORKFLOW: Final = (
    "`{task}.prepare(…)` describes a call, and a workflow runs such calls in order: "
    "`flow.add({task}.prepare(…), after=…)`, then `await app.start_workflow(flow)`"
)
OTHER_LIBRARIES: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            *("delay", "apply", "send", "send_with_options", "message", "defer", "defer_async"),
            *("configure", "kiq", "kicker", "enqueue", "aenqueue", "using", "perform_async"),
            *("spawn", "submit", "schedule", "push", "signature"),
        ),
        _ENQUEUE,
    ),
    "apply_async": "enqueue its job with `await app.enqueue({task}, …)`, or `app.sync.enqueue` "
    "where you cannot await. Options go with the task, `{task}.options(…)`: countdown=60 is "
    "`delay=60`, eta=… is `run_at=…`, and expires=… is `deadline=…`",
    **dict.fromkeys(("delay_on_commit", "apply_async_on_commit"), _IN_TRANSACTION),
    **dict.fromkeys(("s", "si"), _IN_WORKFLOW),
    "retry": "raise an error in the handler, and its job is tried again; "
    '`raise Retryable("why", after=60)` says when',
    "request": "a first parameter with the annotation `ctx: Context` is given the context of the "
    "attempt",
    "update_state": "call `ctx.progress(done, total)` of a first parameter `ctx: Context`",
}


class Task(Generic[P, T_co]):
    """A function that runs as a job, with its name and settings. `@app.task` makes it.

        await app.enqueue(send, "ada@example.org")

    P stands for the function's parameters without the context, and T for its return type.
    """

    is_async: bool
    takes_context: bool

    def __init__(
        self, fn: Callable[..., Any], settings: TaskSettings, arguments: Arguments
    ) -> None:
        self.fn = fn
        self.name = settings.name
        self.settings = settings
        self.defaults = settings.defaults
        self.arguments = arguments
        self.place = place_of(fn)
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Request[T_co]:
        """Check and encode arguments, and return a request that can be enqueued later.

            await app.enqueue_many(send.prepare(address) for address in ["ada@example.org"])

        Raises TypeError if the handler does not accept such a call, and PayloadRefused if a value
        cannot be stored or does not fit its annotation.
        """
        encoded = self.arguments.encode(args, kwargs)
        options = self.defaults
        if options.limits:
            options = fill_limit_keys(options, encoded, self.arguments.parameters)
        if options.unique is not None:
            key = fill_unique_key(options.unique, self.name, encoded, self.arguments.parameters)
            options = replace(options, unique=key)
        return Request(self.name, encoded, self.settings.args_version, options)

    def options(self, **values: Unpack[OptionValues]) -> Self:
        """Return this task with other options, for one enqueue or for many.

            await app.enqueue(send.options(delay=60, tenant="acme"), "hello")

        Raises ConfigError for a value that is not allowed. The task itself does not change.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.defaults = self.defaults.updated(values)
        return other

    def configured(self, **values: Unpack[RunValues]) -> Self:
        """Return this task with another `retry` or `isolate`, for an app to include.

            app.include(extract.configured(isolate=Process(memory=settings.memory)))

        This way, a deployment's settings are read when the app is made, and not when the module of
        the task is imported.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.settings = reconfigure(self.settings, values)
        return other

    def handled_by(self, fn: Callable[..., Any]) -> Self:
        """Return this task with another function as its handler, such as a wrapper around it.

        The function must take the same parameters as the present handler, and must be async if that
        handler is async.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.fn = fn
        return other

    def decode(self, args: str | bytes | Mapping[str, Any], version: int) -> Call:
        """Decode a job's stored arguments for a call of the handler, without the context.

        Raises ArgumentsDoNotFit if they do not fit the annotations, or if an upcaster fails.
        """
        return self.arguments.decode(args, version)

    def check(self) -> None:
        """Resolve the annotations. Raises ConfigError if a type cannot be read from JSON."""
        self.arguments.reader  # noqa: B018

    def policy(self, stored: Mapping[str, Any] | None = None) -> Policy:
        """Return the retry policy that is stored with the job, else the task's own."""
        if not stored:
            return self.settings.retry
        try:
            return load_policy(stored)
        except ConfigError as error:
            # Anyone's SQL may have stored the policy. The attempt must be settled all the same.
            logger.warning("A job of the task %s has a broken retry policy: %s", self.name, error)
            return self.settings.retry

    def failed(self, error: BaseException, *, attempt: int = 0, worker: str = "") -> Failed:
        """Return the outcome of an attempt whose handler raised this exception."""
        return Failed(
            describe_error(error, attempt=attempt, worker=worker),
            is_retryable(error, self.settings.retry_on, self.settings.discard_on),
            error.after if isinstance(error, Retryable) else None,
        )

    if not TYPE_CHECKING:  # To a type checker, a task has the attributes above and no others.

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError. For a method of another task library, suggest our own."""
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in OTHER_LIBRARIES:
                task = self.__dict__.get("__name__", "task")
                remedy = OTHER_LIBRARIES[name].format(task=task)
                message = f"A task of Penstock has no {name}: {remedy}."
            raise AttributeError(message, name=name, obj=self)

    def is_same(self, other: Task[..., Any]) -> bool:
        """Return whether both are the same task, even if their options differ."""
        return self.arguments is other.arguments

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


class AsyncTask(Task[P, T_co]):
    is_async = True
    takes_context = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T_co]:
        coroutine: Coroutine[Any, Any, T_co] = self.fn(*args, **kwargs)
        return coroutine


class AsyncContextTask(Task[P, T_co]):
    is_async = True
    takes_context = True

    def __call__(
        self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T_co]:
        coroutine: Coroutine[Any, Any, T_co] = self.fn(ctx, *args, **kwargs)
        return coroutine


class SyncTask(Task[P, T_co]):
    is_async = False
    takes_context = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        result: T_co = self.fn(*args, **kwargs)
        return result


class SyncContextTask(Task[P, T_co]):
    is_async = False
    takes_context = True

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> T_co:
        result: T_co = self.fn(ctx, *args, **kwargs)
        return result


V = TypeVar("V")
R = TypeVar("R")

# What a handler may return for one item instead of a result. An exception is that item's failure.
ItemOutcome = Done | Retry | Snooze | Cancel | Discard | Exception


class AsyncBatchTask(Task[[V], R], Generic[V, R]):
    is_async = True
    takes_context = False

    def __call__(
        self, items: Sequence[Item[V]], /
    ) -> Coroutine[Any, Any, Sequence[R | ItemOutcome]]:
        coroutine: Coroutine[Any, Any, Sequence[R | ItemOutcome]] = self.fn(items)
        return coroutine


class AsyncContextBatchTask(Task[[V], R], Generic[V, R]):
    is_async = True
    takes_context = True

    def __call__(
        self, ctx: BatchContext, items: Sequence[Item[V]], /
    ) -> Coroutine[Any, Any, Sequence[R | ItemOutcome]]:
        coroutine: Coroutine[Any, Any, Sequence[R | ItemOutcome]] = self.fn(ctx, items)
        return coroutine


class SyncBatchTask(Task[[V], R], Generic[V, R]):
    is_async = False
    takes_context = False

    def __call__(self, items: Sequence[Item[V]], /) -> Sequence[R | ItemOutcome]:
        outcomes: Sequence[R | ItemOutcome] = self.fn(items)
        return outcomes


class SyncContextBatchTask(Task[[V], R], Generic[V, R]):
    is_async = False
    takes_context = True

    def __call__(self, ctx: BatchContext, items: Sequence[Item[V]], /) -> Sequence[R | ItemOutcome]:
        outcomes: Sequence[R | ItemOutcome] = self.fn(ctx, items)
        return outcomes


BATCH_KINDS: dict[tuple[bool, bool], type[Task[..., Any]]] = {
    (kind.is_async, kind.takes_context): kind
    for kind in (AsyncBatchTask, AsyncContextBatchTask, SyncBatchTask, SyncContextBatchTask)
}


KINDS: dict[tuple[bool, bool], type[Task[..., Any]]] = {
    (kind.is_async, kind.takes_context): kind
    for kind in (AsyncTask, AsyncContextTask, SyncTask, SyncContextTask)
}


def make_task(fn: Callable[..., Any], values: TaskValues) -> Task[..., Any]:
    """Turn a function into a task. The task's class depends on how the function is called."""
    check_names(values)
    check_function(fn)
    settings = make_settings(fn, values)
    is_batch = settings.batch is not None
    parameters = (ItemParameters if is_batch else Parameters)(settings.name, fn)
    check_limit_keys(settings.defaults, parameters)
    check_unique_args(settings.defaults.unique, parameters)
    arguments = Arguments(
        parameters, settings.args_version, settings.upcasters, settings.args_limit
    )
    kinds = BATCH_KINDS if is_batch else KINDS
    return kinds[inspect.iscoroutinefunction(fn), parameters.takes_context](fn, settings, arguments)
