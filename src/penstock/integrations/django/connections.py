"""Makes a URL from the settings of a Django connection, so that nothing is configured twice."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlencode

from penstock.errors import ConfigError

HOST = re.compile(r"[A-Za-z0-9._-]+")
# The options that psycopg and asyncpg have in common. Other options concern psycopg alone.
SHARED_OPTIONS = (
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
    """Return the URL of a Django connection's database. During tests it is the test database."""
    if connection.vendor != "postgresql":
        raise ConfigError('PENSTOCK["DATABASE"]', connection.alias, "the alias of a Postgres")
    params = connection.get_connection_params()
    query = {name: params[name] for name in SHARED_OPTIONS if params.get(name) is not None}
    if role := connection.settings_dict["OPTIONS"].get("assume_role"):
        query["role"] = role
    host = params.get("host", "")
    port = str(params.get("port") or "")
    if HOST.fullmatch(host):
        host = f"{host}:{port}" if port else host
    else:
        # The folder of a socket, several hosts, or an IPv6 address.
        query |= {"host": host} if host else {}
        query |= {"port": port} if port else {}
        host = ""
    name = quote(params.get("dbname") or "", safe="")
    return f"postgresql://{_login(params)}{host}/{name}{'?' if query else ''}{urlencode(query)}"


def _login(params: dict[str, Any]) -> str:
    if not params.get("user"):
        return ""
    user = quote(params["user"], safe="")
    password = params.get("password")
    return f"{user}:{quote(str(password), safe='')}@" if password else f"{user}@"
