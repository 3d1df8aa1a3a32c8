"""Tasks: named handlers with their defaults. A task is still the function it was made of."""

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
from penstock.tasks.keys import check_args, check_keys, with_key, with_keys
from penstock.tasks.options import OptionValues
from penstock.tasks.parameters import BY_POSITION, Parameters
from penstock.tasks.reader import Call
from penstock.tasks.request import Request
from penstock.tasks.settings import (
    RunValues,
    Settings,
    TaskValues,
    check_names,
    configured,
    place_of,
    settings_of,
)

WRITE = "Write a function (def or async def) that calls it, and put @app.task on that."


def check_function(fn: Any) -> None:
    """Raise Misuse unless this is a function whose jobs a worker can run."""
    if not inspect.isfunction(fn):
        raise Misuse(_why_not(fn))
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise Misuse(
            f"{fn.__qualname__} is a generator, and a task returns its result: return a list "
            "instead of yielding, or enqueue a job for each part."
        )
    for place, parameter in enumerate(inspect.signature(fn).parameters.values()):
        if parameter.annotation is parameter.empty:
            _check_bare(fn, parameter.name, is_first=place == 0)


def _check_bare(fn: Any, name: str, *, is_first: bool) -> None:
    """Raise Misuse for a bare `self`, `cls` or `ctx`: these are not arguments of a job."""
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


def _why_not(fn: Any) -> str:
    match fn:
        case Task():
            return f"{fn.name} is a task already. Let @app.task stand above it once."
        case str():
            return (
                f"@app.task stands above a function, and was given the text {fn!r}. To name a "
                f"task, write @app.task(name={fn!r})."
            )
        case staticmethod() | classmethod():
            return (
                f"@app.task cannot stand above @{type(fn).__name__}. Put it on a function outside "
                "the class."
            )
        case type():
            return f"A task is made of a function, and {fn.__qualname__} is a class. {WRITE}"
        case partial():
            return f"A task is made of a function, and this is a functools.partial. {WRITE}"
    if inspect.ismethod(fn):
        return (
            f"{fn.__qualname__} is a method that is bound to an object, and a worker has no such "
            "object. Write a function that loads the object, such as by its id, and put "
            "@app.task on that."
        )
    what = getattr(fn, "__qualname__", None) or f"of type {type(fn).__qualname__}"
    return f"A task is made of a function, and this is {what}, which is none. {WRITE}"


# The name that the argument is stored by, whatever the handler calls its list.
ITEM: Final = "item"
SHAPE: Final = "items: list[Item[…]], after an optional ctx: BatchContext, and nothing else"


class ItemParameters(Parameters):
    """Says that a job has one argument, `item`, of the type that the handler's items hold."""

    context = BatchContext

    def _arguments(self, given: list[Parameter]) -> list[Parameter]:
        if len(given) != 1 or given[0].kind not in BY_POSITION:
            shown = ", ".join(str(one) for one in given)
            raise Misuse(f"{self.task}({shown}) has a batch, so it takes {SHAPE}.")
        self._items = given[0]
        return [Parameter(ITEM, Parameter.POSITIONAL_OR_KEYWORD)]

    def hints(self) -> dict[str, Any]:
        hint = self._hint(self._items)
        if hint is Any or hint is list:
            return {ITEM: Any}
        kinds = get_args(hint)
        is_list = isinstance(get_origin(hint), type) and issubclass(list, get_origin(hint))
        if not is_list or len(kinds) != 1 or (get_origin(kinds[0]) or kinds[0]) is not Item:
            raise Misuse(f"{self.task}({self._items}) has a batch, so it takes {SHAPE}.")
        return {ITEM: next(iter(get_args(kinds[0])), Any)}


logger = logging.getLogger(__name__)

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


# What enqueues a job in Celery, Dramatiq, Procrastinate, taskiq, Django and others.
_ENQUEUE: Final = (
    "enqueue its job with `await app.enqueue({task}, …)`, or `app.sync.enqueue({task}, …)` where "
    "you cannot await. Options go with the task: `{task}.options(queue=…, delay=…)`"
)
_IN_TRANSACTION: Final = (
    "enqueue its job in your transaction, `app.inside(connection).enqueue({task}, …)`: it is there "
    "if that commits. In Django `app.sync.enqueue({task}, …)` is part of the transaction by itself"
)
_IN_WORKFLOW: Final = (
    "`{task}.prepare(…)` is a call to be made later, and a workflow has some in order: "
    "`flow.add({task}.prepare(…), after=…)`, then `await app.start_workflow(flow)`"
)
ELSEWHERE: Final[dict[str, str]] = {
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
    """A named handler with its defaults.

    P are the arguments of its jobs, without the context; T is what it returns.
    """

    is_async: bool
    takes_context: bool

    def __init__(self, fn: Callable[..., Any], settings: Settings, arguments: Arguments) -> None:
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
        """Return a request with these arguments, checked and encoded, to be enqueued later.

        Raises TypeError for a call that the handler would not take, PayloadRefused for values that
        cannot be stored or would not fit its annotations.
        """
        encoded = self.arguments.encode(args, kwargs)
        options = self.defaults
        if options.limits:
            options = with_keys(options, encoded, self.arguments.parameters)
        if options.unique is not None:
            key = with_key(options.unique, self.name, encoded, self.arguments.parameters)
            options = replace(options, unique=key)
        return Request(self.name, encoded, self.settings.args_version, options)

    def options(self, **values: Unpack[OptionValues]) -> Self:
        """Return this task with other defaults, for one enqueue or for many.

        await app.enqueue(send.options(delay=60, tenant="acme"), "hello")
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.defaults = self.defaults.updated(values)
        return other

    def configured(self, **values: Unpack[RunValues]) -> Self:
        """Return this task with another `retry` or `isolate`, for an app to include.

            app.include(extract.configured(isolate=Process(memory=settings.memory)))

        What a deployment sets is then read when its app is made, not when the task is imported.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.settings = configured(self.settings, values)
        return other

    def handled_by(self, fn: Callable[..., Any]) -> Self:
        """Return this task with another function to run its jobs: what surrounds the handler.

        It must take what the handler takes, and await if that does.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.fn = fn
        return other

    def decode(self, args: str | bytes | Mapping[str, Any], version: int) -> Call:
        """Return what to call the handler with, without the context, from a job's stored arguments.

        Raises ArgumentsDoNotFit for what the handler's annotations, or its upcasters, do not take.
        """
        return self.arguments.decode(args, version)

    def check(self) -> None:
        """Look up the annotations now: raises ConfigError if one cannot be read from JSON."""
        self.arguments.reader  # noqa: B018

    def policy(self, stored: Mapping[str, Any] | None = None) -> Policy:
        """Return the retry policy: the one stored with the job, else the task's own."""
        if not stored:
            return self.settings.retry
        try:
            return load_policy(stored)
        except ConfigError as error:
            # Anyone's SQL may have stored it; the attempt must be settled all the same.
            logger.warning("A job of the task %s has a broken retry policy: %s", self.name, error)
            return self.settings.retry

    def failed(self, error: BaseException, *, attempt: int = 0, worker: str = "") -> Failed:
        """Return what it means for an attempt that the handler raised this."""
        return Failed(
            describe_error(error, attempt=attempt, worker=worker),
            is_retryable(error, self.settings.retry_on, self.settings.discard_on),
            error.after if isinstance(error, Retryable) else None,
        )

    if not TYPE_CHECKING:  # For a checker it has the attributes above, and no others.

        def __getattr__(self, name: str) -> Any:
            """Say what takes the place of what tasks of other libraries have."""
            told = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in ELSEWHERE:
                task = self.__dict__.get("__name__", "task")
                told = f"A task of Penstock has no {name}: {ELSEWHERE[name].format(task=task)}."
            raise AttributeError(told, name=name, obj=self)

    def is_same(self, other: Task[..., Any]) -> bool:
        """Whether both are one task, perhaps with other options."""
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

# What a handler may say of one item, beside its result: an exception is that item's failure.
Said = Done | Retry | Snooze | Cancel | Discard | Exception


class AsyncBatchTask(Task[[V], R], Generic[V, R]):
    is_async = True
    takes_context = False

    def __call__(self, items: Sequence[Item[V]], /) -> Coroutine[Any, Any, Sequence[R | Said]]:
        coroutine: Coroutine[Any, Any, Sequence[R | Said]] = self.fn(items)
        return coroutine


class AsyncContextBatchTask(Task[[V], R], Generic[V, R]):
    is_async = True
    takes_context = True

    def __call__(
        self, ctx: BatchContext, items: Sequence[Item[V]], /
    ) -> Coroutine[Any, Any, Sequence[R | Said]]:
        coroutine: Coroutine[Any, Any, Sequence[R | Said]] = self.fn(ctx, items)
        return coroutine


class SyncBatchTask(Task[[V], R], Generic[V, R]):
    is_async = False
    takes_context = False

    def __call__(self, items: Sequence[Item[V]], /) -> Sequence[R | Said]:
        said: Sequence[R | Said] = self.fn(items)
        return said


class SyncContextBatchTask(Task[[V], R], Generic[V, R]):
    is_async = False
    takes_context = True

    def __call__(self, ctx: BatchContext, items: Sequence[Item[V]], /) -> Sequence[R | Said]:
        said: Sequence[R | Said] = self.fn(ctx, items)
        return said


BATCH_KINDS: dict[tuple[bool, bool], type[Task[..., Any]]] = {
    (kind.is_async, kind.takes_context): kind
    for kind in (AsyncBatchTask, AsyncContextBatchTask, SyncBatchTask, SyncContextBatchTask)
}


KINDS: dict[tuple[bool, bool], type[Task[..., Any]]] = {
    (kind.is_async, kind.takes_context): kind
    for kind in (AsyncTask, AsyncContextTask, SyncTask, SyncContextTask)
}


def make_task(fn: Callable[..., Any], values: TaskValues) -> Task[..., Any]:
    """Return the task of a function, of the class that says how it is called."""
    check_names(values)
    check_function(fn)
    settings = settings_of(fn, values)
    reads, kinds = (Parameters, KINDS) if settings.batch is None else (ItemParameters, BATCH_KINDS)
    parameters = reads(settings.name, fn)
    check_keys(settings.defaults, parameters)
    check_args(settings.defaults.unique, parameters)
    arguments = Arguments(
        parameters, settings.args_version, settings.upcasters, settings.args_limit
    )
    return kinds[inspect.iscoroutinefunction(fn), parameters.takes_context](fn, settings, arguments)
