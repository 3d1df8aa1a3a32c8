"""A real Postgres beside the project: started on demand, stopped by the last one out.

    with Server().hold() as url:
        ...

Any number of threads and processes may hold the same server at the same time.
"""

from penstock.embedded.cluster import Status
from penstock.embedded.folder import Hold
from penstock.embedded.server import Server

__all__ = ["Hold", "Server", "Status"]
