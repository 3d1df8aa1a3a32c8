"""Connections to addresses that were looked at before, and to no others.

A name is resolved here, once, and the connection goes to the very address that was checked:
a name server that gives another answer the second time is never asked a second time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import httpcore
import httpx

from penstock.errors import ConfigError
from penstock.net.errors import FetchFailed, FetchRefused

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# By name and not by `is_global`: that has changed from one Python to the next.
SPECIAL: tuple[tuple[str, str], ...] = (
    ("127.0.0.0/8", "this machine itself"),
    ("0.0.0.0/8", "this machine itself"),
    ("10.0.0.0/8", "a private network"),
    ("172.16.0.0/12", "a private network"),
    ("192.168.0.0/16", "a private network"),
    ("100.64.0.0/10", "the network of a provider"),
    ("169.254.0.0/16", "the local link, where clouds keep the secrets of their machines"),
    ("168.63.129.16/32", "a cloud's service for its machines"),
    ("192.0.0.0/24", "a network for special purposes"),
    ("192.0.2.0/24", "an example in documents"),
    ("198.51.100.0/24", "an example in documents"),
    ("203.0.113.0/24", "an example in documents"),
    ("192.88.99.0/24", "a relay to another network"),
    ("198.18.0.0/15", "a network for measurements"),
    ("224.0.0.0/4", "many machines at once"),
    ("240.0.0.0/4", "nowhere: it is reserved"),
    ("::1/128", "this machine itself"),
    ("::/128", "this machine itself"),
    ("64:ff9b::/96", "an IPv4 address in disguise"),
    ("64:ff9b:1::/48", "an IPv4 address in disguise"),
    ("2002::/16", "an IPv4 address in disguise"),
    ("2001:db8::/32", "an example in documents"),
    ("3fff::/20", "an example in documents"),
    ("2001::/23", "a network for special purposes"),
    ("fc00::/7", "a private network"),
    ("fe80::/10", "the local link"),
    ("fec0::/10", "a private network"),
    ("ff00::/8", "many machines at once"),
)
_TABLE: tuple[tuple[Network, str], ...] = tuple((ip_network(net), what) for net, what in SPECIAL)
_PUBLIC_IPV6 = IPv6Network("2000::/3")


# The variables are a prefix of who fetches, an underscore, and one of these.
ALLOWED_NAMES = ("PRIVATE", "PORTS")
WEB = frozenset({80, 443})

LONGEST = 8_192
DEFAULT_PORTS = {"http": 80, "https": 443}

logger = logging.getLogger("penstock.net")
Resolve = Callable[[str, int], Awaitable[list[str]]]


def address_of(text: str) -> Address:
    """The address itself: one of IPv4 that is written as IPv6 is one of IPv4."""
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def where_else(address: Address) -> str | None:
    """Where this leads to, if not to the public internet."""
    for network, what in _TABLE:
        if address.version == network.version and address in network:
            return what
    if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6:
        return "nowhere: it is reserved"
    return None


@dataclass(frozen=True, slots=True)
class Allowed:
    """`private`: hosts and networks that are no part of the public web and may be fetched from.

    `variable` is what the environment variables begin with that allow more. Errors name them, and
    the fields of this class where there is none.

    Allowed(private=("wiki.corp", "10.1.0.0/16"), ports=frozenset({80, 443, 8080}))
    """

    private: tuple[str, ...] = ()
    ports: frozenset[int] = WEB
    variable: str = ""

    def __post_init__(self) -> None:
        for port in self.ports:
            if not _is_port(str(port)):
                raise ConfigError("ports", port, "numbers from 1 to 65535")

    @classmethod
    def of(cls, variable: str, environment: Mapping[str, str] = os.environ) -> Allowed:
        """What `<variable>_PRIVATE` and `<variable>_PORTS` allow, as lists with commas."""
        private, ports = (f"{variable}_{name}" for name in ALLOWED_NAMES)
        numbers = _list(environment.get(ports, ""))
        if not all(map(_is_port, numbers)):
            raise ConfigError(ports, environment[ports], "numbers from 1 to 65535, with commas")
        return cls(
            private=tuple(_list(environment.get(private, ""))),
            ports=frozenset(map(int, numbers)) or WEB,
            variable=variable,
        )

    @property
    def private_variable(self) -> str:
        """The variable that allows hosts and networks."""
        return f"{self.variable}_PRIVATE" if self.variable else "Allowed(private=…)"

    @property
    def ports_variable(self) -> str:
        """The variable that allows ports."""
        return f"{self.variable}_PORTS" if self.variable else "Allowed(ports=…)"

    def allows(self, host: str, address: Address) -> bool:
        """Whether this address, found under this name, was allowed in so many words."""
        name = host.lower().rstrip(".")
        for entry in self.private:
            network = _network(entry)
            if network is None:
                if entry.lower().rstrip(".") == name:
                    return True
            elif network.version == address.version and address in network:
                return True
        return False


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        return None


def _list(text: str) -> list[str]:
    return [entry for entry in (each.strip() for each in text.split(",")) if entry]


def place_at(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """The URL, checked for what can be seen in it; where its name leads is checked later."""
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        url = url.copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise FetchRefused("url", f"{text[:200]!r} is no address of a page ({error}).") from error
    if len(text) > LONGEST:
        raise FetchRefused("url", f"An address of more than {LONGEST:,} characters is not fetched.")
    if url.scheme not in DEFAULT_PORTS:
        raise FetchRefused(
            "url",
            f"Only http and https are fetched, not {url.scheme or 'an address without it'!r}.",
        )
    if url.userinfo:
        raise FetchRefused(
            "url", f"The address of a page on {url.host} has a password in it. Leave that out."
        )
    if not url.host or "%" in url.host:
        raise FetchRefused("url", f"{text[:200]!r} names no server.")
    return url


def shown(url: str | httpx.URL) -> str:
    """An address for messages, without its query: that of a signed link opens what it leads to."""
    known = httpx.URL(url) if isinstance(url, str) else url
    without = str(known.copy_with(query=None, fragment=None))
    return f"{without}?…" if known.query else without


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as this machine knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Guard(httpcore.AsyncNetworkBackend):
    """What httpcore opens its connections with; a certificate is still held against the name."""

    def __init__(self, allow: Allowed, resolve: Resolve = resolve) -> None:
        self._allow = allow
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._checked(host, port, timeout)
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(str(address), port, timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(str(addresses[-1]), port, timeout)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise FetchRefused("address", "No page is fetched from a socket of this machine.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _checked(self, host: str, port: int, timeout: float | None) -> list[Address]:
        """Where this name may lead; what else it answers is left out."""
        check_port(host, port, self._allow)
        found = await self._resolved(host, port, timeout)
        return permitted(host, [address_of(text) for text in found], self._allow)

    async def _resolved(self, host: str, port: int, timeout: float | None) -> list[str]:
        try:
            async with asyncio.timeout(timeout):
                found = await self._resolve(host, port)
        except TimeoutError as error:
            raise FetchFailed(
                f"The name {host} could not be looked up in {timeout:g} s."
            ) from error
        except (socket.gaierror, UnicodeError) as error:
            if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
                raise FetchFailed(f"The name {host} could not be looked up now.") from error
            raise unknown(host, self._allow) from error
        if not found:
            raise unknown(host, self._allow)
        return found


def check_port(host: str, port: int, allow: Allowed) -> None:
    """FetchRefused for a port that pages are not fetched from."""
    if port not in allow.ports:
        raise FetchRefused(
            "address",
            f"Port {port} of {host} is not one that pages are fetched from "
            f"({', '.join(map(str, sorted(allow.ports)))}). Who runs this server can allow it by "
            f"{allow.ports_variable}.",
        )


def permitted(host: str, addresses: list[Address], allow: Allowed) -> list[Address]:
    """Those that may be fetched from, of the addresses of a name; FetchRefused if none may be."""
    refused = {
        address: what
        for address in addresses
        if (what := where_else(address)) and not allow.allows(host, address)
    }
    if good := [address for address in addresses if address not in refused]:
        return good
    address, what = next(iter(refused.items()))
    if not _is_address(host):
        logger.warning(
            "A page on %s was asked for, which is %s: %s. %s can allow it.",
            host,
            address,
            what,
            allow.private_variable,
        )
        raise unknown(host, allow)
    raise FetchRefused(
        "address",
        f"{host} leads to {what}, and only the public web is fetched. Whoever runs this service "
        f"can allow it by {allow.private_variable}.",
    )


def unknown(host: str, allow: Allowed) -> FetchRefused:
    """A name of nobody, or of a server of ours: which of them is not for those outside to know."""
    return FetchRefused(
        "unknown_host",
        f"The public web has no server with the name {host}. Check the address. Whoever runs this "
        f"service can allow others by {allow.private_variable}.",
    )


def _is_address(host: str) -> bool:
    try:
        address_of(host)
    except ValueError:
        return False
    return True


def foresee(text: str, allow: Allowed) -> None:
    """FetchRefused for an address that no request will be made for; names are not looked up."""
    url = place_at(text)
    check_port(url.host, url.port or DEFAULT_PORTS[url.scheme], allow)
    try:
        address = address_of(url.host)
    except ValueError:
        return  # A name, which may lead anywhere.
    permitted(url.host, [address], allow)
