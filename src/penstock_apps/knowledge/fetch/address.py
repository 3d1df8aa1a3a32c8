"""Addresses that lead to the public internet, and those that lead somewhere else."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

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
