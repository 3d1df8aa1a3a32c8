"""Run a real Postgres in a folder of the project, for as long as somebody uses it.

    with Server().hold() as url:
        ...

Any number of threads and processes may hold the same server at the same time. The first one
starts it, and the last one stops it.
"""

from penstock.embedded.cluster import Status
from penstock.embedded.folder import Hold
from penstock.embedded.server import Server

__all__ = ["Hold", "Server", "Status"]
