"""Settings in small groups, each validated once with an error that names the setting.

Sources, later ones win: defaults, environment (`PENSTOCK_…`), arguments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.errors import ConfigError
from penstock.hosts import hosts_of, place

DATABASE_URL = "PENSTOCK_DATABASE_URL"
DATA_DIR = "PENSTOCK_DATA_DIR"
SCHEMA = "PENSTOCK_SCHEMA"
LISTEN_URL = "PENSTOCK_LISTEN_URL"
CALL_TIMEOUT = "PENSTOCK_CALL_TIMEOUT"
REQUIRE_URL = "PENSTOCK_REQUIRE_DATABASE_URL"

CALL_SECONDS = 30.0
EMBEDDED = "The embedded Postgres"
ADDRESS = "postgresql://user@host/database"
READABLE_ADDRESS = (
    "postgresql://user:password@host:port/database, with a port from 1 to 65535, and with "
    "percent signs for what is special in a password (%2F for a slash)"
)
HOST_AND_PORT = re.compile(r"(?:\[[^][]+\]|/[^:]*|[^][:/]*)(?::(\d*))?", re.ASCII)
PASSWORD = re.compile(r"(pass\w*\s*[=:]).*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Database:
    """Where the queue lives. Without a URL an embedded Postgres is started in `data_dir`.

    Where the URL leads to a pooler that delivers no notifications, `listen_url` may lead past it.
    `prepared_statements` is for a pooler that can bear them; None has them where none is found.
    `call_timeout` is how many seconds a call may wait for the database, all its tries together.
    """

    url: str | None = None
    data_dir: str | None = None
    schema: str = "penstock"
    pool_size: int = 8
    listen_url: str | None = None
    prepared_statements: bool | None = None
    call_timeout: float = CALL_SECONDS

    def __post_init__(self) -> None:
        expect_address("database_url", self.url)
        expect_address("listen_url", self.listen_url)
        if self.data_dir is not None and not self.data_dir:
            raise ConfigError("data_dir", self.data_dir, "the path of a folder")
        if not self.schema or len(self.schema.encode()) > 50:
            raise ConfigError("schema", self.schema, "a name of 1 to 50 bytes")
        between("pool_size", self.pool_size, 1, 1000)
        if self.prepared_statements not in (True, False, None):
            raise ConfigError("prepared_statements", self.prepared_statements, "True, False, None")
        _up_to_an_hour("call_timeout", self.call_timeout)

    @property
    def place(self) -> str:
        """The database as errors name it: where it is, without who logs in and how."""
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
        """Arguments over the environment over the defaults; a folder given beats a URL there."""
        if url is None and data_dir is None:
            # Set and empty is a mistake, such as a secret that is not there.
            expect_address(DATABASE_URL, url := environment.get(DATABASE_URL))
            if listen_url is None:
                expect_address(LISTEN_URL, listen_url := environment.get(LISTEN_URL))
        return cls(
            url=url,
            data_dir=data_dir if data_dir is not None else environment.get(DATA_DIR) or None,
            schema=schema or environment.get(SCHEMA) or "penstock",
            pool_size=pool_size,
            listen_url=listen_url,
            prepared_statements=prepared_statements,
            call_timeout=_given_seconds(CALL_TIMEOUT, call_timeout, environment),
        )


def requires_url(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether an embedded Postgres may not stand in for a database that nobody names."""
    text = environment.get(REQUIRE_URL, "")
    if text not in ("", "0", "1"):
        raise ConfigError(REQUIRE_URL, text, "1 or 0")
    return text == "1"


@dataclass(frozen=True, slots=True)
class Liveness:
    """How a worker shows that it is alive, and when it is taken for dead. Seconds."""

    heartbeat: float = 10.0
    lease: float = 60.0
    stall_limit: float = 300.0
    stall_warning: float = 5.0
    exit_on_stall: bool = False
    start_wait: float = 60.0

    def __post_init__(self) -> None:
        _positive(self, "heartbeat", "lease", "stall_limit", "stall_warning", "start_wait")
        if self.heartbeat * 2 > self.lease:
            raise ConfigError("heartbeat", self.heartbeat, "at most half the lease")


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker claims, and how often it looks unasked. Seconds, and numbers of jobs."""

    poll: float = 1.0
    rescan: float = 2.0
    claim_most: int = 1000
    unsettled_most: int = 4000
    reconcile: float = 30.0
    unwritten_retry: float = 30.0

    def __post_init__(self) -> None:
        _positive(self, "poll", "rescan", "reconcile", "unwritten_retry")
        between("claim_most", self.claim_most, 1, 10_000)
        between("unsettled_most", self.unsettled_most, 1, 100_000)


@dataclass(frozen=True, slots=True)
class Stopping:
    """How long parts of a stop may take: jobs, cancelled jobs, local pools, leaving. Seconds."""

    finish: float = 20.0
    cancel: float = 10.0
    pool: float = 5.0
    leave: float = 10.0

    def __post_init__(self) -> None:
        _up_to_a_day(self, "finish", "cancel", "pool", "leave")

    def limit(self, *, signals: int = 1, has_pools: bool = False) -> float:
        """How long a stop may take after so many signals; local pools are waited for twice."""
        pools = 2 * self.pool if has_pools else 0.0
        return pools + (self.finish if signals < 2 else 0.0) + self.cancel + self.leave


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How often the maintenance runs, and its limits. Seconds, days and bytes."""

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
        _up_to_a_day(self, "overtime_grace", "isolation_wait", "schedule_grace")
        # At least so large that one result, of up to 1 MiB, is a small part of it.
        between("step_cache_bytes", self.step_cache_bytes, 2**24, 2**50)
        between("partitions_ahead", self.partitions_ahead, 2, 400)
        _positive(
            self, "election", "term", "rescue", "overtime", "expire", "sweep", "unserved",
            "partitions", "promote_most", "park_limit",
        )  # fmt: skip
        if self.election * 2 > self.term:
            raise ConfigError("election", self.election, "at most half the term")


@dataclass(frozen=True, slots=True)
class JobLog:
    """What a worker logs about its jobs: each that completed, and tracebacks of failures."""

    completed: bool = True
    tracebacks: bool = False


def _positive(group: object, *names: str) -> None:
    for name in names:
        value = getattr(group, name)
        if not isinstance(value, int | float) or not 0 < value <= 31_536_000:
            raise ConfigError(name, value, "a number of seconds above 0")


def _up_to_a_day(group: object, *names: str) -> None:
    for name in names:
        value = getattr(group, name)
        if not isinstance(value, int | float) or not 0 <= value <= 86_400:
            raise ConfigError(name, value, "0 to 86400 seconds")


def _up_to_an_hour(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 3600:
        raise ConfigError(name, value, "a number of seconds above 0, up to 3600")


def _given_seconds(name: str, value: float | None, environment: Mapping[str, str]) -> float:
    """The seconds that an argument or the environment gives, else the default."""
    if value is not None:
        return value
    if not (text := environment.get(name)):
        return CALL_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = nan
    _up_to_an_hour(name, seconds)
    return seconds


def between(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is not a whole number in a range."""
    if not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(name, value, f"a whole number from {low} to {high}")


def expect_address(name: str, url: object) -> None:
    """Refuse what is no address of a Postgres; None is none."""
    if url is None:
        return
    if not isinstance(url, str):
        raise ConfigError(name, type(url), f"text: {ADDRESS}")
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigError(name, _hidden(url), ADDRESS)
    try:
        _expect_readable(url)
    except ValueError:
        # Without its cause, which quotes the address as it is.
        raise ConfigError(name, _hidden(url), READABLE_ADDRESS) from None


def _expect_readable(url: str) -> None:
    """Raise ValueError if the driver could not read the address."""
    url.encode()  # No lone surrogates.
    parts = urlsplit(url)
    query = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    hosts = unquote(parts.netloc.rpartition("@")[2])
    ports = [port for last in query.get("port", [])[-1:] for port in last.split(",")]
    for host in hosts.split(",") if hosts else ():
        found = HOST_AND_PORT.fullmatch(host)
        if not host or not found:
            raise ValueError(host)
        ports.append(found[1] or "5432")
    if not all(1 <= int(port) <= 65_535 for port in ports):
        raise ValueError("port")
    hosts_of(url)  # As many ports as hosts.


def _hidden(url: str) -> str:
    """The address without what may be a password: as a URL, without a scheme, as key=value."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "", url
    return PASSWORD.sub(r"\1…", f"{scheme}{mark}{rest.rpartition('@')[2]}")
