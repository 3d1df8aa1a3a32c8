"""One connection to Postgres, with the limits that the queue sets."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg

from penstock import hosts

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# A statement that takes longer is given up: the connection counts as lost.
COMMAND_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0


async def connect(url: str, *, name: str, timeout: float = CONNECT_TIMEOUT) -> Connection:
    """One connection of its own, for what must not wait for a pool.

    It prepares no statements: what is asked every few seconds gains nothing by it, and a pooler
    on the way need not be known.
    """
    return await hosts.connect(
        url,
        timeout=timeout,
        command_timeout=COMMAND_TIMEOUT,
        statement_cache_size=0,
        server_settings={"application_name": name},
    )
