"""What a task is declared with: its defaults for jobs, and what holds for the code itself."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, Literal, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from penstock.backoff import Exponential, Policy
from penstock.errors import ConfigError, Misuse
from penstock.tasks.arguments import NEWEST_VERSION, Upcaster
from penstock.tasks.batch import Batch
from penstock.tasks.isolate import Process, isolation_of
from penstock.tasks.name import TASK_NAME, default_name, place_of
from penstock.tasks.options import Options, matching, whole
from penstock.tasks.payload import ARGS_LIMIT
from penstock.tasks.unique import Unique

LARGEST_LIMIT: Final = 64 * 1024 * 1024
JOB_DEFAULTS: Final = frozenset(
    {"queue", "limits", "priority", "max_attempts", "timeout", "tags", "unique"}
)

Errors = Collection[type[Exception]]


class TaskValues(TypedDict, total=False):
    """What `@task(...)` takes. Durations are seconds or timedeltas."""

    name: str
    queue: str
    limits: str | Iterable[str]
    priority: int
    max_attempts: int
    timeout: float | timedelta | None
    tags: Iterable[str]
    unique: Unique | bool | None
    retry: Policy
    retry_on: Errors
    discard_on: Errors
    resources: Collection[type]
    isolate: Process | bool | None
    args_version: int
    upcasters: Mapping[int, Upcaster]
    args_limit: int


class RunValues(TypedDict, total=False):
    """What `task.configured(...)` takes: how jobs are run, not which arguments they have."""

    retry: Policy
    isolate: Process | bool | None


class BatchTaskValues(TaskValues, total=False):
    """What `@task(...)` takes with `batch`, which makes it a decorator of another type."""

    batch: Batch


class Settings(Struct, frozen=True, kw_only=True):
    """Checked settings of one task."""

    name: str
    defaults: Options = Options()
    retry: Policy = Exponential()
    retry_on: tuple[type[Exception], ...] = ()
    discard_on: tuple[type[Exception], ...] = ()
    resources: tuple[type, ...] = ()
    # None: in a child process after the loss of a worker; False: never.
    isolate: Process | Literal[False] | None = None
    args_version: int = 1
    upcasters: Mapping[int, Upcaster] = {}
    args_limit: int = ARGS_LIMIT
    batch: Batch | None = None


# The settings of Celery's tasks, and what replaces them here.
ELSEWHERE: Final = {
    "bind": "a first parameter with the annotation `ctx: Context` (from penstock import Context) "
    "is given the context of the attempt",
    "max_retries": "write max_attempts=…, which counts the first attempt too",
    "autoretry_for": "leave it out: every error is retried; write retry_on=… to retry only some",
    "dont_autoretry_for": "write discard_on=…",
    "default_retry_delay": "write retry=Fixed(…) or retry=Exponential(…)",
    "retry_backoff": "write retry=Exponential(…)",
    "retry_kwargs": "write max_attempts=… and retry=…",
    "time_limit": "write timeout=…",
    "soft_time_limit": "write timeout=…",
    "rate_limit": "name a limit with limits=…, and set its rate with app.set_limit",
    "acks_late": "leave it out: a job is done when its handler has returned",
    "ignore_result": "leave it out: a handler that returns None keeps nothing",
}


def check_names(values: Mapping[str, Any]) -> None:
    """Raise TypeError for an unknown setting."""
    if unknown := sorted(values.keys() - BatchTaskValues.__optional_keys__):
        known = ", ".join(sorted(BatchTaskValues.__optional_keys__))
        hint = f" Instead: {ELSEWHERE[unknown[0]]}." if unknown[0] in ELSEWHERE else ""
        raise TypeError(f"A task has no setting {unknown[0]!r}; it has {known}.{hint}")


def settings_of(fn: Callable[..., Any], values: TaskValues) -> Settings:
    """Return the settings of a task from what its decorator was given."""
    given: dict[str, Any] = dict(values)
    defaults = {name: given.pop(name) for name in JOB_DEFAULTS & given.keys()}
    name = given.pop("name", None)
    checked = {setting: CHECKS[setting](setting, value) for setting, value in given.items()}
    if checked.get("batch") and checked.get("isolate"):
        raise ConfigError("isolate", given["isolate"], "None or False, where batch is set")
    return Settings(
        name=_default_name(fn) if name is None else matching("name", name, TASK_NAME),
        defaults=Options().updated(defaults),
        **checked,
    )


def configured(settings: Settings, values: RunValues) -> Settings:
    """Return settings of which some are set anew, each checked."""
    if unknown := values.keys() - RunValues.__optional_keys__:
        known = " and ".join(sorted(RunValues.__optional_keys__))
        raise TypeError(f"configured() does not take {sorted(unknown)[0]!r}; it takes {known}.")
    checked = {setting: CHECKS[setting](setting, value) for setting, value in values.items()}
    if settings.batch is not None and checked.get("isolate"):
        raise ConfigError("isolate", values["isolate"], "None or False, where batch is set")
    return replace(settings, **checked)


def _default_name(fn: Callable[..., Any]) -> str:
    if TASK_NAME.fullmatch(name := default_name(fn)):
        return name
    if fn.__name__ == "<lambda>":
        raise Misuse(
            f"A task needs a name, and the lambda at {place_of(fn)} has none. Write a function, or "
            'give it a name: @app.task(name="…").'
        )
    raise Misuse(
        f"The task at {place_of(fn)} would be called {name!r}, and names are made of the letters A "
        'to Z and a to z, digits and _ . : -, at most 200. Give it another: @app.task(name="…").'
    )


def _policy(setting: str, value: Any) -> Policy:
    if isinstance(value, Policy):
        return value
    allowed = "a policy such as Exponential(), Fixed(5), Listed([1, 5, 30]) or Function(f)"
    raise ConfigError(setting, value, allowed)


def _classes(parent: type, allowed: str) -> Callable[[str, Any], tuple[type, ...]]:
    def check(setting: str, value: Any) -> tuple[type, ...]:
        if not isinstance(value, Collection) or isinstance(value, str):
            raise ConfigError(setting, value, allowed)
        for one in value:
            if not (isinstance(one, type) and issubclass(one, parent)):
                raise ConfigError(setting, one, allowed)
        return tuple(value)

    return check


def _batch(setting: str, value: Any) -> Batch:
    if isinstance(value, Batch):
        return value
    raise ConfigError(setting, value, "a Batch, such as Batch(size=64, linger=0.05)")


def _upcasters(setting: str, value: Any) -> Mapping[int, Upcaster]:
    if not isinstance(value, Mapping) or not all(callable(one) for one in value.values()):
        raise ConfigError(setting, value, "a dict of functions, such as {1: lift_from_1_to_2}")
    return value


CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "retry": _policy,
    "retry_on": _classes(Exception, "a tuple of exception classes"),
    "discard_on": _classes(Exception, "a tuple of exception classes"),
    "resources": _classes(object, "a tuple of types"),
    "isolate": isolation_of,
    "args_version": lambda setting, value: whole(setting, value, 1, NEWEST_VERSION),
    "upcasters": _upcasters,
    "args_limit": lambda setting, value: whole(setting, value, 1, LARGEST_LIMIT),
    "batch": _batch,
}
