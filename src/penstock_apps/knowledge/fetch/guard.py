"""Connections to addresses that were looked at before, and to no others.

A name is resolved here, once, and the connection goes to the very address that was checked:
a name server that gives another answer the second time is never asked a second time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable

import httpcore

from penstock_apps.knowledge.fetch.address import Address, address_of, where_else
from penstock_apps.knowledge.fetch.allowed import Allowed
from penstock_apps.knowledge.fetch.errors import FetchFailed, FetchRefused

logger = logging.getLogger("penstock.net")

Resolve = Callable[[str, int], Awaitable[list[str]]]


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
