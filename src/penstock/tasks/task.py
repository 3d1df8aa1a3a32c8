"""A named handler with its defaults. It is still the function it was: calling it runs it here."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, Unpack

from msgspec.structs import replace

from penstock.backoff import Policy, load_policy
from penstock.errors import ConfigError, Retryable
from penstock.outcome import Failed
from penstock.tasks.arguments import Arguments
from penstock.tasks.context import Context
from penstock.tasks.failure import describe_error, is_retryable
from penstock.tasks.limits import with_keys
from penstock.tasks.name import place_of
from penstock.tasks.options import OptionValues
from penstock.tasks.reader import Call
from penstock.tasks.request import Request
from penstock.tasks.settings import RunValues, Settings, configured
from penstock.tasks.unique_key import with_key

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

    def is_same(self, other: "Task[..., Any]") -> bool:
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
