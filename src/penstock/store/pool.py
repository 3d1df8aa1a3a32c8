"""Connections to Postgres, the way the queue uses them."""

from __future__ import annotations

from typing import Any, TypeAlias

import asyncpg

from penstock.store.drivers.adapter import Adapter

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Own: TypeAlias = "Connection | Pool | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
# What callers may bring as well.
Executor: TypeAlias = "Own | Adapter"

# A statement that takes longer is given up: the connection counts as lost.
COMMAND_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0


async def open_pool(url: str, *, size: int, name: str) -> Pool:
    """A pool for statements of ours, none of which leaves a trace on its connection."""
    pool = asyncpg.create_pool(
        url,
        # No floor: while the database is away asyncpg would log each try to restore it.
        min_size=0,
        max_size=size,
        reset=_nothing_to_reset,
        command_timeout=COMMAND_TIMEOUT,
        timeout=CONNECT_TIMEOUT,
        server_settings={"application_name": name},
    )
    return await pool


async def connect(url: str, *, name: str) -> Connection:
    """One connection of its own, for what must not wait for a pool."""
    return await asyncpg.connect(
        url,
        command_timeout=COMMAND_TIMEOUT,
        timeout=CONNECT_TIMEOUT,
        server_settings={"application_name": name},
    )


async def _nothing_to_reset(connection: Any) -> None:
    # asyncpg would spend a round trip on RESET ALL after each use.
    return None
