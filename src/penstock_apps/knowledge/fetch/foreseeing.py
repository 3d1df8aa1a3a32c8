"""What would be refused, as far as that can be seen before anybody is asked."""

from __future__ import annotations

from penstock_apps.knowledge.fetch.address import address_of
from penstock_apps.knowledge.fetch.allowed import Allowed
from penstock_apps.knowledge.fetch.guard import check_port, permitted
from penstock_apps.knowledge.fetch.place import DEFAULT_PORTS, place_at


def foresee(text: str, allow: Allowed) -> None:
    """FetchRefused for an address that no request will be made for; names are not looked up."""
    url = place_at(text)
    check_port(url.host, url.port or DEFAULT_PORTS[url.scheme], allow)
    try:
        address = address_of(url.host)
    except ValueError:
        return  # A name, which may lead anywhere.
    permitted(url.host, [address], allow)
