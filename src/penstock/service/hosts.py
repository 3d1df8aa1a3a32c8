"""Decide which hosts, origins and proxies a service accepts, before it authenticates a caller."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final, Self
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from penstock.errors import ConfigError

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
LIST_VARIABLES: Final = {
    "hosts": "PENSTOCK_HOSTS",
    "origins": "PENSTOCK_ORIGINS",
    "proxies": "PENSTOCK_PROXIES",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """The hosts that a service answers to, the origins it allows, and the proxies it trusts.

    `hosts` are names of this service; `*.example.com` and `*` are allowed. `origins` are other
    sites, such as `https://shop.example`, whose pages may send requests with a key. `proxies` are
    the addresses or networks of proxies in front of the service. Only from a proxy does the service
    accept the client's address in `X-Forwarded-For`, the scheme in `X-Forwarded-Proto`, and the
    name of a person whom the proxy has logged in. `edge_header` is the header with that name.
    """

    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    edge_header: str | None = None

    def __post_init__(self) -> None:
        for host in self.hosts:
            if not host or "/" in host or host != host.strip().lower():
                raise ConfigError("hosts", host, "names in small letters, without a scheme")
        for origin in self.origins:
            parts = urlsplit(origin)
            if (
                parts.scheme not in ("http", "https")
                or origin != f"{parts.scheme}://{parts.netloc}"
            ):
                raise ConfigError("origins", origin, "origins such as https://shop.example")
        self.networks  # noqa: B018  # this parses the proxies, and refuses invalid ones
        if self.edge_header is not None and not self.proxies:
            raise ConfigError(
                "edge_header",
                self.edge_header,
                "left out unless proxies are set, because anybody could send that header",
            )

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Build an Entry from settings, and from environment variables for missing settings.

        Commas separate the items of a list in a variable.
        """
        values: dict[str, Any] = {}
        for name, variable in LIST_VARIABLES.items():
            if text := os.environ.get(variable):
                values[name] = [part.strip() for part in text.split(",") if part.strip()]
        if header := os.environ.get("PENSTOCK_EDGE_HEADER"):
            values["edge_header"] = header
        values |= settings
        lists = {name: tuple(value) for name, value in values.items() if not isinstance(value, str)}
        return cls(**values | lists)

    def with_host(self, host: str) -> Self:
        """Return a copy that also answers to this name."""
        return replace(self, hosts=(*self.hosts, host.lower()))

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        networks = []
        for proxy in self.proxies:
            try:
                networks.append(ip_network(proxy))
            except ValueError:
                raise ConfigError("proxies", proxy, "addresses or networks: 10.0.0.0/8") from None
        return tuple(networks)

    def knows(self, host: str) -> bool:
        """Return whether a Host header, which may have a port, names this service."""
        name = host_name(host)
        return any(
            known == "*" or known == name or (known.startswith("*.") and name.endswith(known[1:]))
            for known in self.hosts
        )

    def trusts(self, address: str | None) -> bool:
        """Return whether an address belongs to one of the proxies."""
        if address is None or not self.proxies:
            return False
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self.networks)


def host_name(host: str) -> str:
    """Return the name in a Host header, in lower case and without the port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".") if host.count(":") < 2 else host


def is_https(connection: HTTPConnection, entry: Entry) -> bool:
    """Return whether the client uses https, to this service or to a trusted proxy."""
    if connection.scope["scheme"] in ("https", "wss"):
        return True
    if not entry.trusts(peer_address(connection)):
        return False
    return connection.headers.get("x-forwarded-proto", "").strip().lower() in ("https", "wss")


def client_address(connection: HTTPConnection, entry: Entry) -> str:
    """Return the client's address.

    This is the first address that is not a trusted proxy's, going back from the peer.
    """
    address = peer_address(connection)
    # A proxy may add a header of its own after the client's.
    forwarded = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
    while entry.trusts(address) and forwarded and (before := forwarded.pop().strip()):
        address = before
    return address or "local"


def peer_address(connection: HTTPConnection) -> str | None:
    """Return the address of the peer (the client or the last proxy), or None if it has none."""
    return connection.client.host if connection.client else None
