"""What may be fetched beyond the public web."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network

from penstock import ConfigError
from penstock_apps.knowledge.fetch.address import Address, Network

# The variables are a prefix of who fetches, an underscore, and one of these.
ALLOWED_NAMES = ("PRIVATE", "PORTS")
WEB = frozenset({80, 443})


@dataclass(frozen=True, slots=True)
class Allowed:
    """`private`: hosts and networks that are no part of the public web and may be fetched from.

    `variable` is what the environment variables begin with that allow more: errors name them.

    Allowed(private=("wiki.corp", "10.1.0.0/16"), ports=frozenset({80, 443, 8080}))
    """

    private: tuple[str, ...] = ()
    ports: frozenset[int] = WEB
    variable: str = "PENSTOCK_FETCH"

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
        return f"{self.variable}_PRIVATE"

    @property
    def ports_variable(self) -> str:
        """The variable that allows ports."""
        return f"{self.variable}_PORTS"

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
