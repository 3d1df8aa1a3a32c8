"""Connections to Postgres, shared by all statements of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

from penstock import hosts, sql
from penstock.store.connection import COMMAND_TIMEOUT, CONNECT_TIMEOUT, Connection
from penstock.store.drivers.adapter import Adapter
from penstock.store.pooler import stands_between

Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Own: TypeAlias = "Connection | Pool | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
# What callers may bring as well.
Executor: TypeAlias = "Own | Adapter"


async def open_pool(
    url: str,
    *,
    size: int,
    name: str,
    prepared: bool | None = None,
    command_timeout: float = COMMAND_TIMEOUT,
    connect_timeout: float = CONNECT_TIMEOUT,
) -> Pool:
    """A pool for statements of ours, none of which leaves a trace on its connection.

    They are `prepared`, as asyncpg does it, unless a pooler stands between or it is said.
    """
    pool = asyncpg.create_pool(
        url,
        # No floor: while the database is away asyncpg would log each try to restore it.
        min_size=0,
        max_size=size,
        connect=_Opener(prepared),
        reset=_nothing_to_reset,
        server_settings={"application_name": name},
        command_timeout=command_timeout,
        timeout=connect_timeout,
    )
    return await pool


def close_idle(pool: Pool) -> None:
    """Close the connections that nobody uses: they are opened again when they are needed."""
    holders: Any = pool._holders  # type: ignore[attr-defined]
    for holder in holders:
        if holder.is_connected() and holder.is_idle():
            holder.terminate()


class _Opener:
    """Makes the connections of one pool; the first finds out whether a pooler stands between."""

    def __init__(self, prepared: bool | None) -> None:
        self._prepared = prepared
        self._pooled: bool | None = None

    async def __call__(self, *place: Any, **settings: Any) -> Any:
        prepares = self._prepared is not False
        connection = await self._connect(place, settings)
        if self._pooled is None:
            async with _or_give_up(connection):
                self._pooled = await stands_between(connection)
            if self._pooled and self._prepared is None:
                # Prepared statements stay on the server's side, for its next client to trip over.
                self._prepared = False
        if prepares and self._prepared is False:
            # Found out by this connection, or by another that was opened at the same time.
            await connection.close()
            connection = await self._connect(place, settings)
        if self._pooled:
            async with _or_give_up(connection):
                await _learn_types(connection)
        return connection

    async def _connect(self, place: tuple[Any, ...], settings: dict[str, Any]) -> Connection:
        if self._prepared is False:
            settings = {**settings, "statement_cache_size": 0}
        return await hosts.connect(*place, **settings)


async def _learn_types(connection: Connection) -> None:
    # Before it uses a type that it does not know, asyncpg switches a setting of the session to ask
    # for it, and then back again: in one transaction, both reach the same server connection.
    async with connection.transaction():
        await connection.fetch(sql.statement("learn_types", ""))


@asynccontextmanager
async def _or_give_up(connection: Connection) -> AsyncIterator[None]:
    """What belongs to opening a connection: it keeps to the time for that."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            yield
    except BaseException:
        connection.terminate()
        raise


async def _nothing_to_reset(connection: Any) -> None:
    # asyncpg would spend a round trip on RESET ALL after each use.
    return None
