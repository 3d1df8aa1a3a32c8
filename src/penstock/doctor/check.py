"""Define what a check is: it reads facts from the database, and turns them into findings."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from penstock.store import Connection, Store
from penstock.store.bounded import BoundedReader
from penstock.tasks import Registry


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """The values at which checks warn. They are seconds unless the name says otherwise.

    await examine(url, limits=CheckLimits(snapshot_warning=60))
    """

    # These bound what the doctor itself costs.
    reading: float = 5.0
    sample_jobs: int = 10_000

    oldest_postgres: int = 15
    latency_warning: float = 0.1
    clock_warning: float = 2.0
    clock_error: float = 60.0
    connections_warning_share: float = 0.8
    connections_error_share: float = 0.95

    # An old snapshot does not slow the queue down, but its tables grow.
    snapshot_warning: float = 900.0
    snapshot_error: float = 4 * 3600.0
    snapshot_warning_transactions: int = 5_000_000
    snapshot_error_transactions: int = 100_000_000
    dead_rows: int = 100_000
    dead_rows_per_live: float = 2.0
    bloat_bytes: int = 256 * 1024 * 1024
    bloat_factor: float = 4.0

    partitions_warning_days: int = 4
    partitions_error_days: int = 2
    expired_days: int = 2
    # How many connections should be able to read the whole history at once.
    history_readers: int = 20

    # A heartbeat is due at least twice in a lease's length.
    silent_share: float = 0.5
    leaderless: float = 15.0
    # After its start a worker may need this long to open its resources and to listen.
    starting: float = 30.0

    stuck_error: float = 3600.0
    lost: float = 30.0
    overtime: float = 120.0
    overdue: float = 60.0
    batch_open: float = 86_400.0
    batch_over: float = 300.0
    unserved: float = 30.0
    closed: float = 600.0
    # Workers give back unused slots within two seconds.
    idle_grant: float = 3.0
    laneless_jobs: int = 100
    failures_warning_hourly: int = 10
    failures_error_hourly: int = 1000


class Verdict(StrEnum):
    """How bad a finding is, from the best to the worst."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return list(Verdict).index(self)


class Finding(Struct, frozen=True):
    """What a check found.

    `seen` describes the state and `remedy` says what to do, both in sentences. `paste` holds
    commands for psql or a shell.
    """

    verdict: Verdict
    seen: str
    remedy: str = ""
    paste: tuple[str, ...] = ()

    def for_schema(self, schema: str) -> Finding:
        """Return the finding with `--schema` in its commands, unless it is the default schema."""
        if schema == "penstock":
            return self
        option = f" --schema {shlex.quote(schema)}"
        paste = (each + option if each.startswith("penstock ") else each for each in self.paste)
        return replace(self, paste=tuple(paste))


def ok(seen: str, remedy: str = "") -> Finding:
    """Return a finding that all is well. `remedy` may say what could still be improved."""
    return Finding(Verdict.OK, seen, remedy)


def skipped(seen: str, remedy: str = "", *paste: str) -> Finding:
    """Return a finding that a check could not run. It says nothing about the queue's health."""
    return Finding(Verdict.SKIPPED, seen, remedy, paste)


def warning(seen: str, remedy: str, *paste: str) -> Finding:
    """Return a finding that jobs run, but not as they should, or not for much longer."""
    return Finding(Verdict.WARNING, seen, remedy, paste)


def error(seen: str, remedy: str, *paste: str) -> Finding:
    """Return a finding that jobs do not run, or soon will not."""
    return Finding(Verdict.ERROR, seen, remedy, paste)


class Code(Struct, frozen=True):
    """The tasks and resources of an app. `name` is the app's import path, such as `shop.jobs`."""

    name: str
    tasks: Registry
    resources: frozenset[str]


T = TypeVar("T")
Clock = Callable[[], datetime]


def local_time() -> datetime:
    """Return the time by this machine's clock."""
    return datetime.now(UTC)


class CheckContext:
    """What checks read from: a connection to the database, and the settings of the examination."""

    def __init__(
        self,
        connection: Connection,
        url: str,
        schema: str,
        limits: CheckLimits,
        *,
        clock: Clock = local_time,
        code: Code | None = None,
    ) -> None:
        self.connection = connection
        self.url = url
        self.schema = schema
        self.store = Store(schema)
        self.limits = limits
        self.clock = clock
        self.code = code
        self._reader = BoundedReader(self.store, connection, limits.reading)

    async def fetch(self, kind: Callable[..., T], statement: str, *values: Any) -> list[T]:
        """Run a statement, and return each row as a `kind` with a field for each column."""
        return [kind(**row) for row in await self._reader.rows(statement, *values)]

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """Begin a read-only transaction whose statements have a timeout."""
        return self._reader.bounds()


F = TypeVar("F")


class CheckGroup(StrEnum):
    """The subject of a check, in the order in which a person would examine the subjects."""

    DATABASE = "Database"
    STORAGE = "Storage"
    WORKERS = "Workers"
    JOBS = "Jobs"


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """One check: `read` fetches facts from the database, and `judge` makes at least one finding."""

    name: str
    group: CheckGroup
    question: str
    read: Callable[[CheckContext], Awaitable[F]]
    judge: Callable[[F, CheckLimits], Sequence[Finding]]


AnyCheck = Check[Any]
