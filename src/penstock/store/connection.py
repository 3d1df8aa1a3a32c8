"""Open connections and pools to Postgres, and detect a pooler such as PgBouncer."""

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

# After a statement that takes longer, the connection counts as lost.
COMMAND_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0


async def connect(url: str, *, name: str, timeout: float = CONNECT_TIMEOUT) -> Connection:
    """Open a single connection, for work that must not wait for a pool.

    Statements are not prepared. A statement that runs every few seconds gains nothing from it, and
    unprepared statements work through any pooler.
    """
    return await hosts.connect(
        url,
        timeout=timeout,
        command_timeout=COMMAND_TIMEOUT,
        statement_cache_size=0,
        server_settings={"application_name": name},
    )


BACKEND_PID = "SELECT pg_backend_pid()"
# A pooler that lends its servers in turn gives our second query another server. One that lends the
# last used server first gives another client the server that we had. If a third client interferes,
# the next probe shows it.
POOLER_PROBES = 5
# A worker polls until it has its echo. If it gave up too early, it would poll for a long time.
ECHO_TIMEOUT_S = 10.0


async def is_behind_pooler(connection: Connection) -> bool:
    """Return whether a pooler, in whatever mode, is between this connection and Postgres.

        if await is_behind_pooler(connection): ...

    A pooler reports process ids of its own, to match a cancel request to its query. The check is
    one plain statement and leaves nothing behind on the server.
    """
    reported_pid = connection.get_server_pid()
    status = await connection.execute(f"SELECT WHERE pg_backend_pid() <> {reported_pid}")
    return status != "SELECT 0"


async def is_transaction_pooled(
    connection: Connection, others: Connection | asyncpg.Pool[asyncpg.Record]
) -> bool:
    """Return whether a pooler in transaction mode lends us a server for each transaction.

        if await is_transaction_pooled(connection, pool): ...

    That is so if this connection gets another server than before, or if another connection gets the
    same server. The check leaves nothing behind on the servers.
    """
    ours, theirs = set[int](), set[int]()
    for _ in range(POOLER_PROBES):
        ours.update([await connection.fetchval(BACKEND_PID) for _ in range(2)])
        theirs.add(await others.fetchval(BACKEND_PID))
        if len(ours) > 1 or ours & theirs:
            return True
    return False


async def receives_notifications(
    connection: Connection, others: asyncpg.Pool[asyncpg.Record]
) -> bool:
    """Return whether this connection receives notifications that other sessions send.

        if not await receives_notifications(connection, pool): ...

    In transaction mode a pooler accepts a LISTEN but never delivers a notification, and the LISTEN
    stays on the server. So the mode is checked first. Then another connection sends a
    notification, and this connection waits for it.
    Raises ConnectionResetError if the connection is lost meanwhile.
    """
    if await is_behind_pooler(connection) and await is_transaction_pooled(connection, others):
        return False
    received = asyncio.Event()
    channel = f"penstock.echo.{secrets.token_hex(8)}"

    def on_notification(*_: object) -> None:
        received.set()

    await connection.add_listener(channel, on_notification)
    connection.add_termination_listener(on_notification)
    await others.execute(f'NOTIFY "{channel}"')
    try:
        async with asyncio.timeout(ECHO_TIMEOUT_S):
            await received.wait()
    except TimeoutError:
        pass
    if connection.is_closed():
        # The echo is missing because the connection was lost, which says nothing about the pooler.
        raise ConnectionResetError(
            "The connection was lost while it waited for a test notification."
        )
    connection.remove_termination_listener(on_notification)
    await connection.remove_listener(channel, on_notification)
    return received.is_set()


Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Own: TypeAlias = "Connection | Pool | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
# Our own connections, and adapted connections of the caller's driver.
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
    """Open a pool for Penstock's own statements, none of which changes the state of a session.

    `prepared` says whether statements are prepared. By default they are, unless the first
    connection detects a pooler.
    """
    pool = asyncpg.create_pool(
        url,
        # With a minimum, asyncpg would log every attempt to restore it while the database is away.
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
    """Close the idle connections. The pool opens new ones when they are needed."""
    holders: Any = pool._holders  # type: ignore[attr-defined]
    for holder in holders:
        if holder.is_connected() and holder.is_idle():
            holder.terminate()


class _Opener:
    """Open the connections of one pool. The first one detects whether a pooler is in between."""

    def __init__(self, prepared: bool | None) -> None:
        self._prepared = prepared
        self._pooled: bool | None = None

    async def __call__(self, *address: Any, **settings: Any) -> Any:
        prepares = self._prepared is not False
        connection = await self._connect(address, settings)
        if self._pooled is None:
            async with _terminate_on_error(connection):
                self._pooled = await is_behind_pooler(connection)
            if self._pooled and self._prepared is None:
                # Prepared statements stay on the server and would collide with its next client's.
                self._prepared = False
        if prepares and self._prepared is False:
            # This connection found the pooler, or another one that was opened at the same time.
            await connection.close()
            connection = await self._connect(address, settings)
        if self._pooled:
            async with _terminate_on_error(connection):
                await _learn_types(connection)
        return connection

    async def _connect(self, address: tuple[Any, ...], settings: dict[str, Any]) -> Connection:
        if self._prepared is False:
            settings = {**settings, "statement_cache_size": 0}
        return await hosts.connect(*address, **settings)


async def _learn_types(connection: Connection) -> None:
    # To look up a type that it does not know, asyncpg changes a session setting and changes it back
    # afterwards. In one transaction, both changes reach the same server connection.
    async with connection.transaction():
        await connection.fetch(sql.statement("list_array_types", ""))


@asynccontextmanager
async def _terminate_on_error(connection: Connection) -> AsyncIterator[None]:
    """Limit a block to the connect timeout, and terminate the connection if the block fails."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            yield
    except BaseException:
        connection.terminate()
        raise


async def _nothing_to_reset(connection: Any) -> None:
    # asyncpg would spend a round trip on RESET ALL after each use.
    return None
