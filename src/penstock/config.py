"""The settings of an app and of its workers, in small groups.

Arguments override environment variables (`PENSTOCK_…`), and these override the defaults. Each value
is checked once. ConfigError names the setting and what it must be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.errors import ConfigError
from penstock.hosts import hosts_of, place

DATABASE_URL = "PENSTOCK_DATABASE_URL"
DATA_DIR = "PENSTOCK_DATA_DIR"
SCHEMA = "PENSTOCK_SCHEMA"
LISTEN_URL = "PENSTOCK_LISTEN_URL"
CALL_TIMEOUT = "PENSTOCK_CALL_TIMEOUT"
REQUIRE_URL = "PENSTOCK_REQUIRE_DATABASE_URL"

DEFAULT_CALL_TIMEOUT_S = 30.0
EMBEDDED = "The embedded Postgres"
UP_TO_AN_HOUR_FORM = "a number of seconds above 0, up to 3600"
URL_FORM = "postgresql://user@host/database"
FULL_URL_FORM = (
    "postgresql://user:password@host:port/database, with a port from 1 to 65535, and with "
    "percent signs for what is special in a password (%2F for a slash)"
)
HOST_AND_PORT = re.compile(r"(?:\[[^][]+\]|/[^:]*|[^][:/]*)(?::(\d*))?", re.ASCII)
PASSWORD = re.compile(r"(pass\w*\s*[=:]).*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Database:
    """The database of an app, and how the app connects to it.

    - `url`: the address of your Postgres. Without it, an embedded Postgres is started.
    - `data_dir`: the folder of the embedded Postgres.
    - `schema`: the schema that holds the tables.
    - `pool_size`: the most connections of the app itself. A worker has a pool of its own.
    - `listen_url`: another address of the same Postgres, for notifications alone. Set it if `url`
      leads to a pooler that delivers no notifications, such as PgBouncer in transaction mode.
    - `prepared_statements`: whether statements are prepared once and used again. None means True,
      unless a pooler is found. Set True for a pooler that supports prepared statements.
    - `call_timeout`: how many seconds a call waits for the database, with all its tries, before it
      raises DatabaseLost.
    """

    url: str | None = None
    data_dir: str | None = None
    schema: str = "penstock"
    pool_size: int = 8
    listen_url: str | None = None
    prepared_statements: bool | None = None
    call_timeout: float = DEFAULT_CALL_TIMEOUT_S

    def __post_init__(self) -> None:
        check_database_url("database_url", self.url)
        check_database_url("listen_url", self.listen_url)
        if self.data_dir is not None and not self.data_dir:
            raise ConfigError("data_dir", self.data_dir, "the path of a folder")
        if not self.schema or len(self.schema.encode()) > 50:
            raise ConfigError("schema", self.schema, "a name of 1 to 50 bytes")
        check_range("pool_size", self.pool_size, 1, 1000)
        if self.prepared_statements not in (True, False, None):
            raise ConfigError("prepared_statements", self.prepared_statements, "True, False, None")
        _check_up_to_an_hour("call_timeout", self.call_timeout)

    @property
    def place(self) -> str:
        """The database's name and hosts for error messages, without user and password."""
        if self.url is not None:
            return f"The database {place(self.url)}"
        return f"The embedded Postgres in {self.data_dir}" if self.data_dir else EMBEDDED

    @classmethod
    def of(
        cls,
        url: str | None = None,
        *,
        data_dir: str | None = None,
        schema: str | None = None,
        pool_size: int = 8,
        listen_url: str | None = None,
        prepared_statements: bool | None = None,
        call_timeout: float | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Database:
        """Return the settings from arguments, else from the environment, else the defaults.

        If `data_dir` is passed, a URL in the environment is ignored.
        """
        if url is None and data_dir is None:
            # A variable that is set but empty is a mistake, such as a secret that is missing.
            check_database_url(DATABASE_URL, url := environment.get(DATABASE_URL))
            if listen_url is None:
                check_database_url(LISTEN_URL, listen_url := environment.get(LISTEN_URL))
        return cls(
            url=url,
            data_dir=data_dir if data_dir is not None else environment.get(DATA_DIR) or None,
            schema=schema or environment.get(SCHEMA) or "penstock",
            pool_size=pool_size,
            listen_url=listen_url,
            prepared_statements=prepared_statements,
            call_timeout=_call_timeout(call_timeout, environment),
        )


def requires_url(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a database must be named, because an embedded Postgres is forbidden."""
    text = environment.get(REQUIRE_URL, "")
    if text not in ("", "0", "1"):
        raise ConfigError(REQUIRE_URL, text, "1 or 0")
    return text == "1"


@dataclass(frozen=True, slots=True)
class Liveness:
    """How a worker shows that it is alive, and when it counts as lost. All times are seconds.

    - `heartbeat`: how often the worker renews its lease; at most half the lease.
    - `lease`: how long after its last heartbeat a worker counts as lost, and others get its jobs.
    - `stall_limit`: how long a handler may block the event loop before the worker stops renewing
      its lease.
    - `stall_warning`: how long a handler may block the event loop before that is logged.
    - `exit_on_stall`: at the stall limit, print all stacks and end the process with exit code 70.
    - `start_wait`: how long `async with app.worker()` waits for a lease before it raises
      StartTimeout.
    """

    heartbeat: float = 10.0
    lease: float = 60.0
    stall_limit: float = 300.0
    stall_warning: float = 5.0
    exit_on_stall: bool = False
    start_wait: float = 60.0

    def __post_init__(self) -> None:
        _check_positive(self, "heartbeat", "lease", "stall_limit", "stall_warning", "start_wait")
        if self.heartbeat * 2 > self.lease:
            raise ConfigError("heartbeat", self.heartbeat, "at most half the lease")


@dataclass(frozen=True, slots=True)
class Pace:
    """How many jobs a worker claims at a time, and how often it looks for jobs.

    - `poll`: how often, in seconds, the worker looks for jobs while it gets no notifications.
    - `rescan`: how often, in seconds, the worker looks for jobs while it gets notifications. This
      finds jobs that were enqueued without a notification.
    - `claim_most`: the most jobs in one claim.
    - `unsettled_most`: how many outcomes may wait to be written before the worker claims no more
      jobs.
    - `reconcile`: how often, in seconds, the worker compares the jobs under its lease with the jobs
      that it knows, and gives back those that it does not know.
    - `unwritten_retry`: the longest pause, in seconds, before the worker tries again to write an
      outcome that the database refuses.
    """

    poll: float = 1.0
    rescan: float = 2.0
    claim_most: int = 1000
    unsettled_most: int = 4000
    reconcile: float = 30.0
    unwritten_retry: float = 30.0

    def __post_init__(self) -> None:
        _check_positive(self, "poll", "rescan", "reconcile", "unwritten_retry")
        check_range("claim_most", self.claim_most, 1, 10_000)
        check_range("unsettled_most", self.unsettled_most, 1, 100_000)


@dataclass(frozen=True, slots=True)
class Stopping:
    """How many seconds each phase of a worker's stop may take.

    - `finish`: how long running jobs may go on before they are cancelled.
    - `cancel`: how long cancelled handlers may clean up.
    - `pool`: how long local pools may finish their calls. This phase comes twice: before the wait
      for running jobs, and after it.
    - `leave`: how long the worker may take to write outcomes, end its lease, and close resources
      and connections.
    """

    finish: float = 20.0
    cancel: float = 10.0
    pool: float = 5.0
    leave: float = 10.0

    def __post_init__(self) -> None:
        _check_up_to_a_day(self, "finish", "cancel", "pool", "leave")

    def limit(self, *, signals: int = 1, has_pools: bool = False) -> float:
        """Return how many seconds a stop may take in all.

        A second signal skips the phase `finish`. If there are local pools, the phase `pool` counts
        twice.
        """
        pools = 2 * self.pool if has_pools else 0.0
        return pools + (self.finish if signals < 2 else 0.0) + self.cancel + self.leave


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How often maintenance runs, and its limits. Times are seconds, unless a line says otherwise.

    Rescue runs in every worker, the rest in the leader.

    - `election`: how often a worker tries to become the leader; at most half the term.
    - `term`: how long a leader that no longer answers stays the leader.
    - `rescue`: how often to look for jobs of lost workers.
    - `overtime`: how often to look for jobs that run past their timeout in a live worker.
    - `overtime_grace`: how long a job may run past its timeout, counted from its claim, before it
      is taken from a live worker.
    - `expire`: how often to end jobs past their deadline, and waits for events past their timeout.
    - `sweep`: how often old leases, keys, progress, steps and events are removed.
    - `unserved`: how long jobs may be ready in a queue without a worker before the leader warns.
    - `partitions`: how often partitions of the history are made and dropped.
    - `partitions_ahead`: for how many days ahead partitions are made.
    - `promote_most`: the longest pause between two looks for scheduled jobs that are due.
    - `park_limit`: how long a job may wait for a worker that knows its task before it fails.
    - `isolation_wait`: for how long at a stretch jobs that lost their worker run alone, and how
      long such a job waits for the other jobs to end.
    - `schedule_grace`: how late a schedule's tick may fire before it counts as missed.
    - `step_cache_bytes`: how many bytes the shared results of steps may take, for all tenants
      together.
    """

    election: float = 2.0
    term: float = 6.0
    rescue: float = 5.0
    overtime: float = 15.0
    overtime_grace: float = 60.0
    expire: float = 1.0
    sweep: float = 60.0
    unserved: float = 30.0
    partitions: float = 3600.0
    partitions_ahead: int = 7
    promote_most: float = 5.0
    park_limit: float = 86_400.0
    isolation_wait: float = 30.0
    schedule_grace: float = 60.0
    step_cache_bytes: int = 2**30

    def __post_init__(self) -> None:
        _check_up_to_a_day(self, "overtime_grace", "isolation_wait", "schedule_grace")
        # The minimum is large enough that one result, of up to 1 MiB, is a small part of it.
        check_range("step_cache_bytes", self.step_cache_bytes, 2**24, 2**50)
        check_range("partitions_ahead", self.partitions_ahead, 2, 400)
        _check_positive(
            self, "election", "term", "rescue", "overtime", "expire", "sweep", "unserved",
            "partitions", "promote_most", "park_limit",
        )  # fmt: skip
        if self.election * 2 > self.term:
            raise ConfigError("election", self.election, "at most half the term")


@dataclass(frozen=True, slots=True)
class JobLog:
    """What a worker logs about its jobs.

    - `completed`: log each job that completes, with its duration; at most 100 a second.
    - `tracebacks`: log the traceback of each failed attempt.
    """

    completed: bool = True
    tracebacks: bool = False


def _check_positive(group: object, *names: str) -> None:
    for name in names:
        value = getattr(group, name)
        if not isinstance(value, int | float) or not 0 < value <= 31_536_000:
            raise ConfigError(name, value, "a number of seconds above 0")


def _check_up_to_a_day(group: object, *names: str) -> None:
    for name in names:
        value = getattr(group, name)
        if not isinstance(value, int | float) or not 0 <= value <= 86_400:
            raise ConfigError(name, value, "0 to 86400 seconds")


def _check_up_to_an_hour(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 3600:
        raise ConfigError(name, value, UP_TO_AN_HOUR_FORM)


def _call_timeout(value: float | None, environment: Mapping[str, str]) -> float:
    """Return the seconds of the argument, else of the environment, else the default."""
    if value is not None:
        return value
    if not (text := environment.get(CALL_TIMEOUT)):
        return DEFAULT_CALL_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        raise ConfigError(CALL_TIMEOUT, text, UP_TO_AN_HOUR_FORM) from None
    _check_up_to_an_hour(CALL_TIMEOUT, seconds)
    return seconds


def check_range(name: str, value: object, low: int, high: int) -> None:
    """Raise ConfigError unless the value is a whole number from `low` to `high`."""
    if not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(name, value, f"a whole number from {low} to {high}")


def check_database_url(name: str, url: object) -> None:
    """Raise ConfigError unless the value is None or the URL of a Postgres."""
    if url is None:
        return
    if not isinstance(url, str):
        raise ConfigError(name, type(url), f"text: {URL_FORM}")
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigError(name, _without_password(url), URL_FORM)
    try:
        _check_parts(url)
    except ValueError:
        # The cause is left out, because it quotes the URL with its password.
        raise ConfigError(name, _without_password(url), FULL_URL_FORM) from None


def _check_parts(url: str) -> None:
    """Raise ValueError if the driver could not read the URL."""
    url.encode()  # Refuses lone surrogates.
    parts = urlsplit(url)
    query = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    hosts = unquote(parts.netloc.rpartition("@")[2])
    ports = [port for last in query.get("port", [])[-1:] for port in last.split(",")]
    for host in hosts.split(",") if hosts else ():
        match = HOST_AND_PORT.fullmatch(host)
        if not host or not match:
            raise ValueError(host)
        ports.append(match[1] or "5432")
    if not all(1 <= int(port) <= 65_535 for port in ports):
        raise ValueError("port")
    hosts_of(url)  # Refuses another number of ports than of hosts.


def _without_password(url: str) -> str:
    """Return the URL without user and password, even if it has no scheme or is key=value text."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    return PASSWORD.sub(r"\1…", f"{scheme}{separator}{rest.rpartition('@')[2]}")
