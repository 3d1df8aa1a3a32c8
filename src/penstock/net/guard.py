"""Connect only to public addresses, and to private ones that are explicitly allowed.

A name is resolved once, and the connection goes to the address that was checked. A name server
therefore cannot pass the check with one address and direct the connection to another one.
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

# The networks are listed here because `is_global` differs between versions of Python.
SPECIAL_NETWORKS: tuple[tuple[str, str], ...] = (
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
_PARSED_NETWORKS: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), description) for network, description in SPECIAL_NETWORKS
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")


# An application's environment variables are its prefix, an underscore, and one of these.
VARIABLE_SUFFIXES = ("PRIVATE", "PORTS")
WEB_PORTS = frozenset({80, 443})

MAX_URL_CHARS = 8_192
DEFAULT_PORTS = {"http": 80, "https": 443}

logger = logging.getLogger("penstock.net")
Resolve = Callable[[str, int], Awaitable[list[str]]]


def parse_address(text: str) -> Address:
    """Parse an address. An IPv4 address that is written as IPv6 becomes an IPv4 address."""
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def describe_special_network(address: Address) -> str | None:
    """Describe the special network of an address. Return None for a public address."""
    for network, description in _PARSED_NETWORKS:
        if address.version == network.version and address in network:
            return description
    if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6:
        return "nowhere: it is reserved"
    return None


@dataclass(frozen=True, slots=True)
class Allowed:
    """The private hosts and the ports that may be fetched from. Public hosts are always allowed.

    Allowed(private=("wiki.corp", "10.1.0.0/16"), ports=frozenset({80, 443, 8080}))

    `private` lists hosts and networks that are not public. `variable` is the prefix of the
    environment variables that set both. Errors tell the reader to set these variables, or the
    fields of this class if there is no prefix.
    """

    private: tuple[str, ...] = ()
    ports: frozenset[int] = WEB_PORTS
    variable: str = ""

    def __post_init__(self) -> None:
        for port in self.ports:
            if not _is_port(str(port)):
                raise ConfigError("ports", port, "numbers from 1 to 65535")

    @classmethod
    def of(cls, variable: str, environment: Mapping[str, str] = os.environ) -> Allowed:
        """Read the comma-separated lists in `<variable>_PRIVATE` and `<variable>_PORTS`."""
        private, ports = (f"{variable}_{name}" for name in VARIABLE_SUFFIXES)
        numbers = _split(environment.get(ports, ""))
        if not all(map(_is_port, numbers)):
            raise ConfigError(
                ports, environment[ports], "numbers from 1 to 65535, separated by commas"
            )
        return cls(
            private=tuple(_split(environment.get(private, ""))),
            ports=frozenset(map(int, numbers)) or WEB_PORTS,
            variable=variable,
        )

    @property
    def private_variable(self) -> str:
        """The name that errors use for the setting of private hosts and networks."""
        return f"{self.variable}_PRIVATE" if self.variable else "Allowed(private=…)"

    @property
    def ports_variable(self) -> str:
        """The name that errors use for the setting of ports."""
        return f"{self.variable}_PORTS" if self.variable else "Allowed(ports=…)"

    def allows(self, host: str, address: Address) -> bool:
        """Return whether `private` lists this host or this address."""
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


def _split(text: str) -> list[str]:
    return [entry for entry in (each.strip() for each in text.split(",")) if entry]


def parse_url(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """Parse a URL, and raise `FetchRefused` if it cannot be fetched.

    The addresses of its host are checked later, when the connection is made.
    """
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        url = url.copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise FetchRefused("url", f"{text[:200]!r} is not a valid URL ({error}).") from error
    if len(text) > MAX_URL_CHARS:
        raise FetchRefused(
            "url", f"An address of more than {MAX_URL_CHARS:,} characters is not fetched."
        )
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


def display_url(url: str | httpx.URL) -> str:
    """Return a URL for messages.

    The query is left out, because it may contain the secret of a signed link.
    """
    parsed = httpx.URL(url) if isinstance(url, str) else url
    without_query = str(parsed.copy_with(query=None, fragment=None))
    return f"{without_query}?…" if parsed.query else without_query


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host name, as this machine resolves it."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


class Guard(httpcore.AsyncNetworkBackend):
    """Connects httpcore only to allowed addresses.

    The connection is made to an address, but certificates are still checked against the host's
    name.
    """

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
        addresses = await self._resolve_and_check(host, port, timeout)
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
        raise FetchRefused("address", "Pages are not fetched from local sockets.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _resolve_and_check(
        self, host: str, port: int, timeout: float | None
    ) -> list[Address]:
        """Resolve a host name, and return its allowed addresses.

        Raises `FetchRefused` if no address is allowed, or the port is not allowed.
        """
        check_port(host, port, self._allow)
        addresses = await self._look_up(host, port, timeout)
        return filter_addresses(host, [parse_address(text) for text in addresses], self._allow)

    async def _look_up(self, host: str, port: int, timeout: float | None) -> list[str]:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve(host, port)
        except TimeoutError as error:
            raise FetchFailed(
                f"The name {host} could not be looked up in {timeout:g} s."
            ) from error
        except (socket.gaierror, UnicodeError) as error:
            if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
                raise FetchFailed(f"The name {host} could not be looked up now.") from error
            raise unknown_host_error(host, self._allow) from error
        if not addresses:
            raise unknown_host_error(host, self._allow)
        return addresses


def check_port(host: str, port: int, allow: Allowed) -> None:
    """Raise `FetchRefused` if the port is not allowed."""
    if port not in allow.ports:
        raise FetchRefused(
            "address",
            f"Port {port} of {host} is not one that pages are fetched from "
            f"({', '.join(map(str, sorted(allow.ports)))}). Whoever runs this service can allow it "
            f"by {allow.ports_variable}.",
        )


def filter_addresses(host: str, addresses: list[Address], allow: Allowed) -> list[Address]:
    """Return the allowed addresses of a host.

    Raises `FetchRefused` if no address is allowed. If the host is a name that leads into a private
    network, the error is the same as for an unknown host, and only the log names the address.
    """
    refused = {
        address: network
        for address in addresses
        if (network := describe_special_network(address)) and not allow.allows(host, address)
    }
    if permitted := [address for address in addresses if address not in refused]:
        return permitted
    address, network = next(iter(refused.items()))
    if not _is_address(host):
        logger.warning(
            "A page on %s was not fetched, because that name leads to %s (%s). To allow it, "
            "set %s.",
            host,
            address,
            network,
            allow.private_variable,
        )
        raise unknown_host_error(host, allow)
    raise FetchRefused(
        "address",
        f"{host} leads to {network}, and only the public web is fetched. Whoever runs this service "
        f"can allow it by {allow.private_variable}.",
    )


def unknown_host_error(host: str, allow: Allowed) -> FetchRefused:
    """Return the error for a host that does not exist, or that is private.

    The message is the same in both cases, so that callers cannot explore the private network.
    """
    return FetchRefused(
        "unknown_host",
        f"The public web has no server with the name {host}. Check the address. Whoever runs this "
        f"service can allow others by {allow.private_variable}.",
    )


def _is_address(host: str) -> bool:
    try:
        parse_address(host)
    except ValueError:
        return False
    return True


def check_url(text: str, allow: Allowed) -> None:
    """Raise `FetchRefused` if it is certain that this URL would be refused.

    Host names are not looked up, so fetching the URL may still be refused.
    """
    url = parse_url(text)
    check_port(url.host, url.port or DEFAULT_PORTS[url.scheme], allow)
    try:
        address = parse_address(url.host)
    except ValueError:
        return  # The host is a name, whose addresses are checked when it is fetched.
    filter_addresses(url.host, [address], allow)
