"""The server that is measured on, and whether it keeps its word after a crash."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from typing import Any

from penstock.store.connection import Connection

SETTINGS = """
SELECT current_setting('server_version') AS postgres,
       current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('full_page_writes') AS full_page_writes
"""


@dataclass(frozen=True, slots=True)
class Server:
    """Version, and the settings that decide what a commit is worth."""

    postgres: str
    fsync: str
    synchronous_commit: str
    full_page_writes: str

    @classmethod
    async def of(cls, connection: Connection) -> Server:
        row = await connection.fetchrow(SETTINGS)
        assert row is not None
        return cls(**dict(row))

    @property
    def is_durable(self) -> bool:
        return (
            self.fsync == "on"
            and self.full_page_writes == "on"
            and self.synchronous_commit not in ("off", "local")
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "python": platform.python_version()}


def machine() -> dict[str, Any]:
    """This machine, and how busy it is at the moment."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
    }
