"""The hosts that a database URL names, and a connection to the one that serves.

With one host this is what asyncpg does. With several, asyncpg gives all of them one time limit
together: a host that swallows packets, such as a machine that has just died, uses it up, and the
next one is never tried. Here each host has its share of the time.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from penstock.bounded_connection import BoundedConnection

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

LOCAL = "postgresql://"
DEFAULT_PORT = 5432
CONNECT_TIMEOUT_S = 60.0
ANY, PREFER_STANDBY = "any", "prefer-standby"

# They say nothing about the other hosts. A wrong password, say, is the same everywhere.
_TRY_NEXT = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.TargetServerAttributeNotMatched,
)

_last_served: dict[str, Host] = {}


class Host(NamedTuple):
    """One server of a URL; the folder of a Unix socket if the name begins with a slash."""

    name: str
    port: int

    def __str__(self) -> str:
        if self.name.startswith("/"):
            return "the local socket"
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{name}:{self.port}"


class NoHostServes(ConnectionRefusedError):
    """None of the hosts takes a connection of the kind that the URL asks for."""


def hosts_of(url: str) -> tuple[Host, ...]:
    """The hosts in the order of the URL, as libpq reads it; none for the local default."""
    parts = urlsplit(url)
    query = _query(url)
    if named := parts.netloc.rpartition("@")[2]:
        return tuple(_host(unquote(each), _default_port()) for each in named.split(","))
    named = query.get("host") or os.environ.get("PGHOST", "")
    if not named:
        return ()
    names, ports = named.split(","), (query.get("port") or str(_default_port())).split(",")
    if len(ports) == 1:
        ports *= len(names)
    return tuple(_host(*pair) for pair in zip(names, map(int, ports), strict=True))


def place(url: str) -> str:
    """The database and its hosts, without what may be a password: `shop on db1:5432, db2:5432`."""
    hosts = ", ".join(map(str, hosts_of(url))) or "the local socket"
    return f"{urlsplit(url).path.lstrip('/')} on {hosts}"


async def connect(
    dsn: str | None = None, *, timeout: float = CONNECT_TIMEOUT_S, **settings: Any
) -> Connection:
    """A connection to the first host that fits the URL's `target_session_attrs`."""
    if settings.get("connection_class", asyncpg.Connection) is asyncpg.Connection:
        settings["connection_class"] = BoundedConnection
    url = dsn or LOCAL
    wanted = _query(url).get("target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS", ANY)
    hosts = hosts_of(url)
    if len(hosts) < 2 or wanted == PREFER_STANDBY:
        try:
            only: Connection = await asyncpg.connect(url, timeout=timeout, **settings)
            return only
        except asyncpg.TargetServerAttributeNotMatched as error:
            raise NoHostServes(_why(error, wanted)) from error
    failed: list[tuple[Host, Exception]] = []
    deadline = asyncio.get_running_loop().time() + timeout
    # The host that served last comes first: a dead one before it in the list costs no time then.
    last = _last_served.get(url)
    for tried, host in enumerate(sorted(hosts, key=lambda each: each != last)):
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
            # With "any", the order alone says which host is meant to serve.
            if wanted != ANY:
                _last_served[url] = host
            if isinstance(connection, BoundedConnection):
                connection.served_by = host
            return connection
    whys = "; ".join(f"{host}: {_why(error, wanted)}" for host, error in failed)
    raise NoHostServes(whys) from failed[-1][1]


async def connect_beside(connection: Connection, url: str, *, timeout: float) -> Connection:
    """Another connection to the very server that a connection of `connect` leads to."""
    if isinstance(connection, BoundedConnection) and connection.served_by is not None:
        host, port = connection.served_by
        beside: Connection = await asyncpg.connect(url, host=host, port=port, timeout=timeout)
        return beside
    return await connect(url, timeout=timeout)


def _why(error: Exception, wanted: str) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return f"the server is not {wanted}, as target_session_attrs demands"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error) or type(error).__name__


def _query(url: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}


def _default_port() -> int:
    port = os.environ.get("PGPORT", "")
    return int(port) if port.isdigit() else DEFAULT_PORT


def _host(named: str, port: int) -> Host:
    """A host as it stands in a list: with a port of its own, or in brackets."""
    if named.startswith("/"):
        return Host(named, port)
    name, bracket, rest = named.removeprefix("[").partition("]")
    if not bracket:
        name, _, rest = named.partition(":")
    own = rest.removeprefix(":")
    return Host(name, int(own) if own else port)
