"""What may stand between us and Postgres: a pooler, such as PgBouncer.

In transaction mode it lends its clients a server connection for one transaction at a time. So
nothing that is meant to outlive a transaction may be left on one: no prepared statement, no
setting, no lock, no LISTEN. The next client would find it, and we would not.
"""

from __future__ import annotations

import asyncio
import secrets

import asyncpg

from penstock.store.connection import Connection

SERVER = "SELECT pg_backend_pid()"
# Lent in turn, our second look gets another server; the last one first, others get the one that we
# had. Unless somebody comes between: then the next round shows it.
LOOKS = 5
# Meanwhile a worker looks for jobs, as one that is told nothing does; who gives up looks for long.
ECHO_WAIT = 10.0


async def stands_between(connection: Connection) -> bool:
    """Whether a pooler, in whatever mode, answers on this connection in Postgres's place.

        if await stands_between(connection): ...

    A pooler hands out process ids of its own, to know whose query a cancel is meant for. Asked in
    one plain statement, which leaves nothing behind.
    """
    told = connection.get_server_pid()
    return await connection.execute(f"SELECT WHERE pg_backend_pid() <> {told}") != "SELECT 0"


async def lends(connection: Connection, others: Connection | asyncpg.Pool[asyncpg.Record]) -> bool:
    """Whether a pooler lends us a server for one transaction at a time: its transaction mode.

        if await lends(connection, pool): ...

    Seen when we get another server than before, or others get ours. It leaves nothing behind.
    """
    ours, theirs = set[int](), set[int]()
    for _ in range(LOOKS):
        ours.update([await connection.fetchval(SERVER), await connection.fetchval(SERVER)])
        theirs.add(await others.fetchval(SERVER))
        if len(ours) > 1 or ours & theirs:
            return True
    return False


async def hears(connection: Connection, others: asyncpg.Pool[asyncpg.Record]) -> bool:
    """Whether what other sessions notify reaches this connection.

        if not await hears(connection, pool): ...

    In transaction mode a pooler takes a LISTEN and never delivers; and it stays on the server. So
    the mode is asked first, and then an echo tells for sure.
    """
    if await stands_between(connection) and await lends(connection, others):
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
