"""Why a database cannot be reached, and what to do about it."""

from __future__ import annotations

import shlex
from urllib.parse import urlsplit

import asyncpg

from penstock.doctor.finding import Finding, error
from penstock.hosts import DEFAULT_PORT, Host, hosts_of
from penstock.sql import quote
from penstock.store import failures


def unreachable(url: str, problem: Exception) -> Finding:
    """What it means that no connection could be opened."""
    match problem:
        case asyncpg.InvalidCatalogNameError():
            return _no_database(_database(url))
        case asyncpg.InvalidAuthorizationSpecificationError():
            return error(
                f"The server does not let the role in: {problem}.",
                "Mend the role's name or password in the address, or the server's pg_hba.conf.",
            )
        case asyncpg.TooManyConnectionsError():
            return _full(problem)
        case asyncpg.PostgresError():
            return error(f"The server refuses: {problem}.", "Look at the server's log.")
    return _no_server(url, failures.why(problem))


def _no_database(name: str) -> Finding:
    return error(
        f"The server has no database {name}.",
        "Make it, or mend the address:",
        f"CREATE DATABASE {quote(name)};",
    )


def _database(url: str) -> str:
    parts = urlsplit(url)
    # Without a name in the address it is the role's.
    return parts.path.lstrip("/") or parts.username or ""


def _full(problem: Exception) -> Finding:
    return error(
        f"The server takes no more connections: {problem}.",
        "End what is not needed, put a pooler between, or raise the limit. As a superuser:",
        "SELECT usename, application_name, state, count(*) FROM pg_stat_activity "
        "GROUP BY 1, 2, 3 ORDER BY 4 DESC;",
    )


def _no_server(url: str, why: str) -> Finding:
    remedy = "Is it running, is the address right, and does a firewall let it through?"
    if len(hosts_of(url)) > 1:
        remedy += " During a failover, wait until a standby has been promoted."
    return error(
        f"The database cannot be reached: {why}.",
        remedy,
        *(
            f"pg_isready --host {shlex.quote(host.name)} --port {host.port}"
            for host in hosts_of(url) or [Host("localhost", DEFAULT_PORT)]
        ),
    )
