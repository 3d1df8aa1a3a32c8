"""What a task is declared with: retries, resources, child processes, micro-batching."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from datetime import timedelta
from pathlib import PurePath
from re import compile
from typing import Any, Final, Literal, TypedDict, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.backoff import Exponential, Policy
from penstock.errors import ConfigError, Misuse
from penstock.tasks.arguments import NEWEST_VERSION, Upcaster
from penstock.tasks.options import Options, matching, seconds, whole
from penstock.tasks.payload import ARGS_LIMIT
from penstock.tasks.unique import Unique

TASK_NAME: Final = compile(r"[A-Za-z0-9_.:-]{1,200}")
# What a script is called in itself, and in the processes that it has started.
SCRIPT: Final = ("__main__", "__mp_main__")


def default_name(fn: Callable[..., Any]) -> str:
    """Return `module.function`; for a script, its file's name stands for the module.

    A script is `__main__` to itself, something else to a worker that imports it, and a third to
    child processes: its jobs should have one name in all.
    """
    qualname = fn.__qualname__.replace(".<locals>", "")
    module = fn.__module__
    return f"{_main_module(fn) if module in SCRIPT else module}.{qualname}"


def place_of(fn: Callable[..., Any]) -> str:
    """Return where a function is written, as file:line."""
    code = getattr(fn, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(fn)


def _main_module(fn: Callable[..., Any]) -> str:
    spec = getattr(sys.modules.get(fn.__module__), "__spec__", None)
    if spec is not None:
        return str(spec.name.removesuffix(".__main__"))
    file = getattr(fn, "__globals__", {}).get("__file__")
    return PurePath(file).stem if file else "main"


UNITS: Final = {"KB": 2**10, "MB": 2**20, "GB": 2**30}
SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMG])i?B\s*", re.IGNORECASE)
# A Python with Penstock in it has some 50 MB: less would kill every job.
SMALLEST: Final = 64 * 2**20
# Jobs far past their timeout are taken from their worker: before that their child must be gone.
LONGEST_GRACE: Final = 20.0
MOST_DEATHS: Final = 100
MOST_JOBS: Final = 1_000_000


class Process(Struct, frozen=True, kw_only=True):
    """Run the task's jobs in child processes, where a crash hurts nobody else.

        @app.task(isolate=Process(memory="512MB", time=60))
        def extract(path: str) -> str: ...

    A child that holds more than `memory` while it runs a job, or takes longer than `time` for it,
    is killed; the job's error says which. After `deaths` deaths of any cause the job has failed for
    good, as poison. One that is told to stop has `grace` seconds. Children are kept and used again:
    until they have run `retire_after` jobs, or hold more than `retire_above` after one.
    """

    memory: int | str | None = None
    time: float | timedelta | None = None
    deaths: int = 3
    grace: float | timedelta = 5.0
    retire_after: int = 1000
    retire_above: int | str | None = None

    def __post_init__(self) -> None:
        set_ = msgspec.structs.force_setattr
        if self.memory is not None:
            set_(self, "memory", _bytes("memory", self.memory))
        if self.retire_above is not None:
            set_(self, "retire_above", _bytes("retire_above", self.retire_above))
        elif self.memory is not None:
            set_(self, "retire_above", self.memory // 2)  # type: ignore[operator]
        if self.time is not None and not seconds("time", self.time):
            raise ConfigError("time", self.time, "more than 0 seconds, or None for no limit")
        if seconds("grace", self.grace) > LONGEST_GRACE:
            raise ConfigError("grace", self.grace, f"at most {LONGEST_GRACE:g} seconds")
        whole("deaths", self.deaths, 1, MOST_DEATHS)
        whole("retire_after", self.retire_after, 1, MOST_JOBS)

    @property
    def seconds(self) -> float | None:
        """The most seconds that a job may take."""
        return None if self.time is None else seconds("time", self.time)

    @property
    def grace_seconds(self) -> float:
        return seconds("grace", self.grace)

    def is_worn(self, jobs: int, resident: int) -> bool:
        """Whether a child that has run so many jobs and holds so much is to be replaced."""
        above = self.retire_above
        return jobs >= self.retire_after or (isinstance(above, int) and resident > above)


def isolation_of(setting: str, value: Any) -> Process | bool | None:
    """Return `isolate=`: True stands for no limits, False for never, None for after a loss."""
    if value is True:
        return Process()
    if value is None or value is False or isinstance(value, Process):
        return value
    raise ConfigError(setting, value, "a Process(…), True, False or None")


def _bytes(setting: str, value: Any) -> int:
    size = value
    if isinstance(value, str) and (found := SIZE.fullmatch(value)):
        size = int(float(found[1]) * UNITS[f"{found[2].upper()}B"])
    if type(size) is not int or size < SMALLEST:
        raise ConfigError(setting, value, 'at least 64 MB, such as "512MB", "2GB" or bytes')
    return size


Shared = Literal["tenant", "lane"]
Key = Shared | Callable[[Any], Hashable]

MOST_ITEMS: Final = 10_000
# The database takes back what is past its timeout by a minute, counted from the claim: an item that
# waits for others, and then for a slot, must have begun long before.
LONGEST_LINGER: Final = 30.0


class Batch(Struct, frozen=True):
    """The handler takes many jobs in one call, and returns an outcome for each.

        @app.task(batch=Batch(size=64, linger=0.05))
        async def embed(items: list[Item[str]]) -> list[list[float]]: ...

    A call has up to `size` items. It begins once it has them, or `linger` seconds after the first
    of them has come. Only items of one `key` share a call: their `"tenant"`, their `"lane"`, or
    what a function makes of the value; without one all do. Errors of `fails_all` are nobody's
    fault, so the guilty item is not looked for: all items of the call fail with it.
    """

    size: int
    linger: float | timedelta = 0.05
    key: Key | None = None
    fails_all: Collection[type[Exception]] = (OSError,)

    def __post_init__(self) -> None:
        set_ = msgspec.structs.force_setattr
        if type(self.size) is not int or not 1 <= self.size <= MOST_ITEMS:
            raise ConfigError("batch.size", self.size, f"1 to {MOST_ITEMS} items")
        if (linger := seconds("batch.linger", self.linger)) > LONGEST_LINGER:
            raise ConfigError("batch.linger", self.linger, f"0 to {LONGEST_LINGER:g} seconds")
        set_(self, "linger", linger)
        if not (self.key is None or self.key in get_args(Shared) or callable(self.key)):
            raise ConfigError(
                "batch.key", self.key, '"tenant", "lane" or a function of the item\'s value'
            )
        set_(self, "fails_all", _errors(self.fails_all))

    @property
    def seconds(self) -> float:
        """How long the first item waits for more."""
        assert isinstance(self.linger, float)
        return self.linger


def _errors(given: Any) -> tuple[type[Exception], ...]:
    allowed = "a tuple of exception classes"
    if not isinstance(given, Collection) or isinstance(given, str):
        raise ConfigError("batch.fails_all", given, allowed)
    for one in given:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise ConfigError("batch.fails_all", one, allowed)
    return tuple(given)


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
