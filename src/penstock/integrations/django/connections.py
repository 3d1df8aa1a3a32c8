"""The address of a database that Django is connected to, so that nothing is configured twice."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlencode

from penstock.errors import ConfigError

HOST = re.compile(r"[A-Za-z0-9._-]+")
# What psycopg and asyncpg call by the same name. The others say how psycopg itself should work.
SHARED = (
    "gsslib",
    "krbsrvname",
    "options",
    "passfile",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
)


def address_of(connection: Any) -> str:
    """Where this connection of Django's leads, as a URL: the test database during tests."""
    if connection.vendor != "postgresql":
        raise ConfigError('PENSTOCK["DATABASE"]', connection.alias, "the alias of a Postgres")
    given = connection.get_connection_params()
    query = {name: given[name] for name in SHARED if given.get(name) is not None}
    if role := connection.settings_dict["OPTIONS"].get("assume_role"):
        query["role"] = role
    place = given.get("host", "")
    port = str(given.get("port") or "")
    if HOST.fullmatch(place):
        place = f"{place}:{port}" if port else place
    else:
        # A socket's folder, several hosts, an IPv6 address.
        query |= {"host": place} if place else {}
        query |= {"port": port} if port else {}
        place = ""
    name = quote(given.get("dbname") or "", safe="")
    return f"postgresql://{_login(given)}{place}/{name}{'?' if query else ''}{urlencode(query)}"


def _login(given: dict[str, Any]) -> str:
    if not given.get("user"):
        return ""
    user = quote(given["user"], safe="")
    password = given.get("password")
    return f"{user}:{quote(str(password), safe='')}@" if password else f"{user}@"
