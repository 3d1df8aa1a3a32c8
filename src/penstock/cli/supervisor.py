"""Tell systemd how it stands, where that asked for it (`Type=notify`)."""

from __future__ import annotations

import logging
import os
import socket

logger = logging.getLogger("penstock")

PLACE = "NOTIFY_SOCKET"


def tell(state: str) -> None:
    """`READY=1`, `STOPPING=1`; nobody is told where nobody asked."""
    place = os.environ.get(PLACE)
    if not place:
        return
    # An abstract name is written with an @, and begins with a zero byte.
    address = f"\0{place[1:]}" if place.startswith("@") else place
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("systemd could not be told %s: %s", state, error)


def leave_to_parent() -> None:
    """Tell systemd nothing: the parent process speaks for all."""
    os.environ.pop(PLACE, None)
