"""The settings of a task: retries, resources, child processes, micro-batching."""

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
from penstock.tasks.arguments import MAX_VERSION, Upcaster
from penstock.tasks.options import Options, check_name, check_whole_number, seconds
from penstock.tasks.payload import ARGS_LIMIT
from penstock.tasks.unique import Unique

TASK_NAME: Final = compile(r"[A-Za-z0-9_.:-]{1,200}")
# The module name of a script, in itself and in the child processes that it has started.
SCRIPT_MODULES: Final = ("__main__", "__mp_main__")


def default_name(fn: Callable[..., Any]) -> str:
    """Return `module.function`. In a script, the name of the file replaces that of the module.

    The module of a script is `__main__` when you run the script, `__mp_main__` in its child
    processes, and has its own name in a worker that imports it. The names of its tasks must be the
    same in all of them.
    """
    qualname = fn.__qualname__.replace(".<locals>", "")
    module = fn.__module__
    return f"{_main_module(fn) if module in SCRIPT_MODULES else module}.{qualname}"


def place_of(fn: Callable[..., Any]) -> str:
    """Return where a function is defined, as file:line."""
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
# A Python process with Penstock takes some 50 MB, so a lower limit would kill every job.
MIN_MEMORY_BYTES: Final = 64 * 2**20
# A job far past its timeout is taken from its worker. Its child process must be gone before that.
MAX_GRACE_S: Final = 20.0
MAX_DEATHS: Final = 100
MAX_JOBS: Final = 1_000_000


class Process(Struct, frozen=True, kw_only=True):
    """Runs a task's jobs in child processes, where a crash affects no other job.

        @app.task(isolate=Process(memory="512MB", time=60))
        def extract(path: str) -> str: ...

    - `memory`: kill the child if it uses more memory than this while it runs a job. The job's
      error names this reason.
    - `time`: kill the child if a job takes longer, in seconds.
    - `deaths`: the number of deaths of the child, whatever the cause, after which the job fails
      with the reason `poison`.
    - `grace`: how many seconds a job may take to stop after it was asked to.
    - `retire_after`: how many jobs a child runs before it is replaced.
    - `retire_above`: replace a child that uses more memory than this after a job. The default is
      half of `memory`.
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
        if seconds("grace", self.grace) > MAX_GRACE_S:
            raise ConfigError("grace", self.grace, f"at most {MAX_GRACE_S:g} seconds")
        check_whole_number("deaths", self.deaths, 1, MAX_DEATHS)
        check_whole_number("retire_after", self.retire_after, 1, MAX_JOBS)

    @property
    def seconds(self) -> float | None:
        """How many seconds a job may take; None means no limit."""
        return None if self.time is None else seconds("time", self.time)

    @property
    def grace_seconds(self) -> float:
        return seconds("grace", self.grace)

    def is_worn(self, jobs: int, resident: int) -> bool:
        """Return whether to replace a child that has run `jobs` jobs and holds `resident` bytes."""
        above = self.retire_above
        return jobs >= self.retire_after or (isinstance(above, int) and resident > above)


def check_isolation(setting: str, value: Any) -> Process | bool | None:
    """Return the checked setting `isolate`, and a Process without limits for True.

    With False, no job runs in a child process. With None, a job runs in one only after its worker
    was lost while it ran the job.
    """
    if value is True:
        return Process()
    if value is None or value is False or isinstance(value, Process):
        return value
    raise ConfigError(setting, value, "a Process(…), True, False or None")


def _bytes(setting: str, value: Any) -> int:
    size = value
    if isinstance(value, str) and (match := SIZE.fullmatch(value)):
        size = int(float(match[1]) * UNITS[f"{match[2].upper()}B"])
    if type(size) is not int or size < MIN_MEMORY_BYTES:
        raise ConfigError(setting, value, 'at least 64 MB, such as "512MB", "2GB" or bytes')
    return size


Shared = Literal["tenant", "lane"]
Key = Shared | Callable[[Any], Hashable]

MAX_ITEMS: Final = 10_000
# A job that is a minute past its timeout, counted from its claim, is taken from its worker. An item
# that waits for others, and then for a slot, must have begun long before that.
MAX_LINGER_S: Final = 30.0


class Batch(Struct, frozen=True):
    """Lets a handler take many jobs in one call, and return a result for each.

        @app.task(batch=Batch(size=64, linger=0.05))
        async def embed(items: list[Item[str]]) -> list[list[float]]: ...

    - `size`: the most items of one call. A call that has this many items begins at once.
    - `linger`: how many seconds a call with fewer items waits for more, after its first item.
    - `key`: only items of the same key share a call: `"tenant"`, `"lane"`, or a function of the
      item's value. Without a key, all items may share a call.
    - `fails_all`: errors that no single item is to blame for, such as a lost connection. After
      such an error, all items of the call fail. After any other error, the handler is called again
      with each half of the items, and so on, until only the guilty item fails.
    """

    size: int
    linger: float | timedelta = 0.05
    key: Key | None = None
    fails_all: Collection[type[Exception]] = (OSError,)

    def __post_init__(self) -> None:
        set_ = msgspec.structs.force_setattr
        if type(self.size) is not int or not 1 <= self.size <= MAX_ITEMS:
            raise ConfigError("batch.size", self.size, f"1 to {MAX_ITEMS} items")
        if (linger := seconds("batch.linger", self.linger)) > MAX_LINGER_S:
            raise ConfigError("batch.linger", self.linger, f"0 to {MAX_LINGER_S:g} seconds")
        set_(self, "linger", linger)
        if not (self.key is None or self.key in get_args(Shared) or callable(self.key)):
            raise ConfigError(
                "batch.key", self.key, '"tenant", "lane" or a function of the item\'s value'
            )
        set_(self, "fails_all", _errors(self.fails_all))

    @property
    def seconds(self) -> float:
        """How many seconds an item waits for others."""
        assert isinstance(self.linger, float)
        return self.linger


def _errors(classes: Any) -> tuple[type[Exception], ...]:
    allowed = "a tuple of exception classes"
    if not isinstance(classes, Collection) or isinstance(classes, str):
        raise ConfigError("batch.fails_all", classes, allowed)
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, Exception)):
            raise ConfigError("batch.fails_all", cls, allowed)
    return tuple(classes)


MAX_ARGS_LIMIT_BYTES: Final = 64 * 1024 * 1024
JOB_DEFAULTS: Final = frozenset(
    {"queue", "limits", "priority", "max_attempts", "timeout", "tags", "unique"}
)

Errors = Collection[type[Exception]]


class TaskValues(TypedDict, total=False):
    """The keyword arguments of `@task(…)`. Durations are seconds or timedeltas.

    - `name`: the task's name, stored with its jobs. By default `module.function`.
    - `queue`, `limits`, `priority`, `max_attempts`, `timeout`, `tags`, `unique`: the defaults of
      its jobs. `task.options(…)` changes them for one job.
    - `retry`: the policy that says how long to wait between attempts.
    - `retry_on`: exceptions to retry, by default all. Any other exception fails the job at once.
    - `discard_on`: exceptions that fail the job at once.
    - `resources`: the types of the resources that a worker must open before it runs the handler.
    - `isolate`: True or a `Process(…)` runs the jobs in child processes. With None, a job runs in
      one only after its worker was lost while it ran the job. With False, no job does.
    - `args_version`: the version of the parameters, stored with each job.
    - `upcasters`: functions that upgrade older arguments, each by one version.
    - `args_limit`: how many bytes the arguments may take as JSON.
    """

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
    """The keyword arguments of `task.configured(…)`."""

    retry: Policy
    isolate: Process | bool | None


class BatchTaskValues(TaskValues, total=False):
    """The keyword arguments of `@task(…)` with `batch`, which changes the decorator's type."""

    batch: Batch


class TaskSettings(Struct, frozen=True, kw_only=True):
    """The checked settings of one task."""

    name: str
    defaults: Options = Options()
    retry: Policy = Exponential()
    retry_on: tuple[type[Exception], ...] = ()
    discard_on: tuple[type[Exception], ...] = ()
    resources: tuple[type, ...] = ()
    # None: in a child process only after a worker was lost while it ran the job. False: never.
    isolate: Process | Literal[False] | None = None
    args_version: int = 1
    upcasters: Mapping[int, Upcaster] = {}
    args_limit: int = ARGS_LIMIT
    batch: Batch | None = None


# The settings of Celery's tasks, and what to write instead.
CELERY_SETTINGS: Final = {
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
        hint = f" Instead: {CELERY_SETTINGS[unknown[0]]}." if unknown[0] in CELERY_SETTINGS else ""
        raise TypeError(f"A task has no setting {unknown[0]!r}; it has {known}.{hint}")


def make_settings(fn: Callable[..., Any], values: TaskValues) -> TaskSettings:
    """Check the keyword arguments of a task's decorator, and return the task's settings."""
    others: dict[str, Any] = dict(values)
    defaults = {name: others.pop(name) for name in JOB_DEFAULTS & others.keys()}
    name = others.pop("name", None)
    checked = {setting: CHECKS[setting](setting, value) for setting, value in others.items()}
    if checked.get("batch") and checked.get("isolate"):
        raise ConfigError("isolate", others["isolate"], "None or False, where batch is set")
    return TaskSettings(
        name=_default_name(fn) if name is None else check_name("name", name, TASK_NAME),
        defaults=Options().updated(defaults),
        **checked,
    )


def reconfigure(settings: TaskSettings, values: RunValues) -> TaskSettings:
    """Return the settings with some of them replaced. Raises ConfigError for a bad value."""
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
            f"A task needs a name, but the lambda at {place_of(fn)} has none. Write a function, "
            'or give the task a name: @app.task(name="…").'
        )
    raise Misuse(
        f"The task at {place_of(fn)} would have the name {name!r}, but a name has at most 200 of "
        "the letters A to Z and a to z, digits and _ . : -. Give it another name: "
        '@app.task(name="…").'
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
        for cls in value:
            if not (isinstance(cls, type) and issubclass(cls, parent)):
                raise ConfigError(setting, cls, allowed)
        return tuple(value)

    return check


def _batch(setting: str, value: Any) -> Batch:
    if isinstance(value, Batch):
        return value
    raise ConfigError(setting, value, "a Batch, such as Batch(size=64, linger=0.05)")


def _upcasters(setting: str, value: Any) -> Mapping[int, Upcaster]:
    if not isinstance(value, Mapping) or not all(map(callable, value.values())):
        raise ConfigError(setting, value, "a dict of functions, such as {1: lift_from_1_to_2}")
    return value


CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "retry": _policy,
    "retry_on": _classes(Exception, "a tuple of exception classes"),
    "discard_on": _classes(Exception, "a tuple of exception classes"),
    "resources": _classes(object, "a tuple of types"),
    "isolate": check_isolation,
    "args_version": lambda setting, value: check_whole_number(setting, value, 1, MAX_VERSION),
    "upcasters": _upcasters,
    "args_limit": lambda setting, value: check_whole_number(
        setting, value, 1, MAX_ARGS_LIMIT_BYTES
    ),
    "batch": _batch,
}
