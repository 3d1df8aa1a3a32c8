"""A module that opens a connection when it is imported."""

import os
import socket

from penstock import task

IMPORTED_BY = os.getpid()
CONNECTION = [end.detach() for end in socket.socketpair()]


@task(name="isolation.connected", isolate=True)
def has_imported() -> bool:
    """Whether this very process has imported the module, and so opened the connection."""
    return os.getpid() == IMPORTED_BY
