"""Connects to the first suitable host of those that a database URL names.

asyncpg has a single time limit for all hosts of a URL. A host that swallows packets, such as a
machine that has just died, uses up the limit, and the next host is never tried. This module gives
each host a share of the time.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from penstock.bounded_connection import BoundedConnection

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

LOCAL_URL = "postgresql://"
DEFAULT_PORT = 5432
CONNECT_TIMEOUT_S = 60.0
ANY, PREFER_STANDBY = "any", "prefer-standby"

# After these errors the next host is tried. Others, such as a wrong password, hold for all hosts.
_TRY_NEXT = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.TargetServerAttributeNotMatched,
)

_last_served: dict[str, Host] = {}


class Host(NamedTuple):
    """One server of a URL. A name that begins with a slash is the folder of a Unix socket."""

    name: str
    port: int

    def __str__(self) -> str:
        if self.name.startswith("/"):
            return "the local socket"
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{name}:{self.port}"


class NoHostServes(ConnectionRefusedError):
    """No host of the URL accepts a connection and has what `target_session_attrs` demands."""


def hosts_of(url: str) -> tuple[Host, ...]:
    """Return the hosts of a URL in its order, read as libpq does, or () if it names no host."""
    parts = urlsplit(url)
    query = _query(url)
    if hosts := parts.netloc.rpartition("@")[2]:
        return tuple(_host(unquote(host), _default_port()) for host in hosts.split(","))
    hosts = query.get("host") or os.environ.get("PGHOST", "")
    if not hosts:
        return ()
    names, ports = hosts.split(","), (query.get("port") or str(_default_port())).split(",")
    if len(ports) == 1:
        ports *= len(names)
    return tuple(_host(*pair) for pair in zip(names, map(int, ports), strict=True))


def place(url: str) -> str:
    """Return the database and its hosts without user and password: `shop on db1:5432, db2:5432`."""
    hosts = ", ".join(map(str, hosts_of(url))) or "the local socket"
    return f"{urlsplit(url).path.lstrip('/')} on {hosts}"


async def connect(
    dsn: str | None = None, *, timeout: float = CONNECT_TIMEOUT_S, **settings: Any
) -> Connection:
    """Connect to the first host that fits the URL's `target_session_attrs`.

    Raises NoHostServes if there is none.
    """
    if settings.get("connection_class", asyncpg.Connection) is asyncpg.Connection:
        settings["connection_class"] = BoundedConnection
    url = dsn or LOCAL_URL
    target = _query(url).get("target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS", ANY)
    hosts = hosts_of(url)
    if len(hosts) < 2 or target == PREFER_STANDBY:
        try:
            only: Connection = await asyncpg.connect(url, timeout=timeout, **settings)
            return only
        except asyncpg.TargetServerAttributeNotMatched as error:
            raise NoHostServes(_reason(error, target)) from error
    failed: list[tuple[Host, Exception]] = []
    deadline = asyncio.get_running_loop().time() + timeout
    # The host that served last comes first, so that a dead host before it costs no time.
    last = _last_served.get(url)
    for tried, host in enumerate(sorted(hosts, key=lambda host: host != last)):
        share = (deadline - asyncio.get_running_loop().time()) / (len(hosts) - tried)
        try:
            connection: Connection = await asyncpg.connect(
                url, host=host.name, port=host.port, timeout=max(share, 0.001), **settings
            )
        except _TRY_NEXT as error:
            failed.append((host, error))
            if _last_served.get(url) == host:
                del _last_served[url]
        else:
            # With "any", the order of the URL alone decides which host serves.
            if target != ANY:
                _last_served[url] = host
            if isinstance(connection, BoundedConnection):
                connection.served_by = host
            return connection
    reasons = "; ".join(f"{host}: {_reason(error, target)}" for host, error in failed)
    raise NoHostServes(reasons) from failed[-1][1]


async def connect_beside(connection: Connection, url: str, *, timeout: float) -> Connection:
    """Open another connection to the server of a connection that `connect` has opened."""
    if isinstance(connection, BoundedConnection) and connection.served_by is not None:
        host, port = connection.served_by
        beside: Connection = await asyncpg.connect(url, host=host, port=port, timeout=timeout)
        return beside
    return await connect(url, timeout=timeout)


def _reason(error: Exception, target: str) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return f"the server is not {target}, as target_session_attrs demands"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error) or type(error).__name__


def _query(url: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}


def _default_port() -> int:
    port = os.environ.get("PGPORT", "")
    return int(port) if port.isdigit() else DEFAULT_PORT


def _host(text: str, default_port: int) -> Host:
    """Read one host of a list. It may have a port, and may be an IPv6 address in brackets."""
    if text.startswith("/"):
        return Host(text, default_port)
    name, bracket, rest = text.removeprefix("[").partition("]")
    if not bracket:
        name, _, rest = text.partition(":")
    port = rest.removeprefix(":")
    return Host(name, int(port) if port else default_port)
