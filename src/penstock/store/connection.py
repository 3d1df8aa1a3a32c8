"""Connections to Postgres: one with our limits, a pool of them, and what pooler stands between."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

from penstock import hosts, sql
from penstock.store.drivers.adapter import Adapter

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


SERVER = "SELECT pg_backend_pid()"
# Lent in turn, our second look gets another server; the last one first, others get the one that we
# had. Unless somebody comes between: then the next round shows it.
LOOKS = 5
# Meanwhile a worker looks for jobs, as one that is told nothing does; who gives up looks for long.
ECHO_WAIT = 10.0


async def is_behind_pooler(connection: Connection) -> bool:
    """Whether a pooler, in whatever mode, answers on this connection in Postgres's place.

        if await is_behind_pooler(connection): ...

    A pooler hands out process ids of its own, to know whose query a cancel is meant for. Asked in
    one plain statement, which leaves nothing behind.
    """
    told = connection.get_server_pid()
    return await connection.execute(f"SELECT WHERE pg_backend_pid() <> {told}") != "SELECT 0"


async def is_transaction_pooled(
    connection: Connection, others: Connection | asyncpg.Pool[asyncpg.Record]
) -> bool:
    """Whether a pooler lends us a server for one transaction at a time: its transaction mode.

        if await is_transaction_pooled(connection, pool): ...

    Seen when we get another server than before, or others get ours. It leaves nothing behind.
    """
    ours, theirs = set[int](), set[int]()
    for _ in range(LOOKS):
        ours.update([await connection.fetchval(SERVER), await connection.fetchval(SERVER)])
        theirs.add(await others.fetchval(SERVER))
        if len(ours) > 1 or ours & theirs:
            return True
    return False


async def receives_notifications(
    connection: Connection, others: asyncpg.Pool[asyncpg.Record]
) -> bool:
    """Whether what other sessions notify reaches this connection.

        if not await receives_notifications(connection, pool): ...

    In transaction mode a pooler takes a LISTEN and never delivers; and it stays on the server. So
    the mode is asked first, and then an echo tells for sure.
    """
    if await is_behind_pooler(connection) and await is_transaction_pooled(connection, others):
        return False
    heard = asyncio.Event()
    channel = f"penstock.echo.{secrets.token_hex(8)}"

    def hear(*_: object) -> None:
        heard.set()

    await connection.add_listener(channel, hear)
    connection.add_termination_listener(hear)
    await others.execute(f'NOTIFY "{channel}"')
    try:
        async with asyncio.timeout(ECHO_WAIT):
            await heard.wait()
    except TimeoutError:
        pass
    if connection.is_closed():
        # It heard nothing because it was lost, which says nothing about the way.
        raise ConnectionResetError("The connection was lost while it waited for its echo.")
    connection.remove_termination_listener(hear)
    await connection.remove_listener(channel, hear)
    return heard.is_set()


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
                self._pooled = await is_behind_pooler(connection)
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
        await connection.fetch(sql.statement("list_array_types", ""))


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
