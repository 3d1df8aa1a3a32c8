"""Who may knock at the service, before anybody is let in."""

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
    """Names that the service answers to, pages that may ask it, proxies whose word it takes.

    `hosts` are names of this service, `*.example.com` and `*` too. `origins` are pages of others,
    such as `https://shop.example`, that browsers may let ask with a key. `proxies` are addresses or
    networks of proxies in front: who came through them is taken from `X-Forwarded-For`, and whether
    by https from `X-Forwarded-Proto`. One that asks for a password itself names the person in the
    `edge_header`, which is looked at only if it comes from a proxy.
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
        self.networks  # noqa: B018  # each proxy is read once, to refuse what is none
        if self.edge_header is not None and not self.proxies:
            raise ConfigError(
                "edge_header", self.edge_header, "one only with proxies: else anybody could send it"
            )

    @classmethod
    def of(cls, **given: Any) -> Self:
        """As is given, and for the rest as the environment says; there commas separate."""
        found: dict[str, Any] = {}
        for name, variable in LIST_VARIABLES.items():
            if text := os.environ.get(variable):
                found[name] = [part.strip() for part in text.split(",") if part.strip()]
        if header := os.environ.get("PENSTOCK_EDGE_HEADER"):
            found["edge_header"] = header
        wanted = found | given
        lists = {name: tuple(each) for name, each in wanted.items() if not isinstance(each, str)}
        return cls(**wanted | lists)

    def also(self, host: str) -> Self:
        """With one name more."""
        return replace(self, hosts=(*self.hosts, host.lower()))

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        found = []
        for proxy in self.proxies:
            try:
                found.append(ip_network(proxy))
            except ValueError:
                raise ConfigError("proxies", proxy, "addresses or networks: 10.0.0.0/8") from None
        return tuple(found)

    def knows(self, host: str) -> bool:
        """Whether this is a name of the service; `host` is a Host header, port and all."""
        name = host_name(host)
        return any(
            each == "*" or each == name or (each.startswith("*.") and name.endswith(each[1:]))
            for each in self.hosts
        )

    def trusts(self, address: str | None) -> bool:
        """Whether an address is a proxy's."""
        if address is None or not self.proxies:
            return False
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self.networks)


def host_name(host: str) -> str:
    """The name in a Host header."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".") if host.count(":") < 2 else host


def is_https(connection: HTTPConnection, entry: Entry) -> bool:
    """Whether the caller came by https, to us or to a proxy in front."""
    if connection.scope["scheme"] in ("https", "wss"):
        return True
    if not entry.trusts(peer_address(connection)):
        return False
    return connection.headers.get("x-forwarded-proto", "").strip().lower() in ("https", "wss")


def client_address(connection: HTTPConnection, entry: Entry) -> str:
    """Where a caller is: the last address that no proxy of ours has."""
    address = peer_address(connection)
    # A proxy may add a line of its own below the caller's.
    forwarded = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
    while entry.trusts(address) and forwarded and (before := forwarded.pop().strip()):
        address = before
    return address or "local"


def peer_address(connection: HTTPConnection) -> str | None:
    """Who the connection is from: a caller, or the last proxy."""
    return connection.client.host if connection.client else None
