"""How a task's jobs run in child processes of their own, and what each may use there."""

import re
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError
from penstock.tasks.options import seconds, whole

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
