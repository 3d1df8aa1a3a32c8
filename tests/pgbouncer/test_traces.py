"""Nothing that Penstock does stays on a server connection for its next client to find."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

from penstock import Context, Fixed, Penstock
from tests.fixtures.database import Database, connected
from tests.fixtures.pgbouncer import pgbouncer
from tests.fixtures.worker import worker_of

SERVERS = 4
# PgBouncer itself sets the name of the client that it lends the connection to.
TRACES = """
SELECT 'setting ' || name || ' = ' || setting FROM pg_settings
WHERE source = 'session' AND setting IS DISTINCT FROM reset_val AND name <> 'application_name'
UNION ALL SELECT 'listens to ' || channel FROM pg_listening_channels() AS channel
UNION ALL SELECT 'prepared ' || statement FROM pg_prepared_statements
UNION ALL SELECT 'cursor ' || statement FROM pg_cursors WHERE name <> ''
UNION ALL SELECT 'advisory lock' FROM pg_locks
          WHERE pid = pg_backend_pid() AND locktype = 'advisory'
UNION ALL SELECT 'temporary ' || relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()
"""


@pytest.fixture
async def few_servers(database: Database) -> AsyncIterator[str]:
    """The database behind a PgBouncer that has only a few server connections to lend."""
    async with connected(database.admin_url) as admin:
        # As elsewhere by default: asyncpg switches it off and on again where it asks for types.
        await admin.execute(f"ALTER DATABASE {database.name} SET jit = on")
    async with pgbouncer(database.direct_url, default_pool_size=str(SERVERS)) as bouncer:
        yield bouncer.url(database.direct_url)


async def traces(url: str) -> dict[int, list[str]]:
    """What is left on each of the server connections."""
    found: dict[int, list[str]] = {}
    async with AsyncExitStack() as stack:
        for _ in range(SERVERS):
            connection = await stack.enter_async_context(connected(url))
            await stack.enter_async_context(connection.transaction())
            pid = await connection.fetchval("SELECT pg_backend_pid()")
            found[pid] = [row[0] for row in await connection.fetch(TRACES)]
    return found


async def test_a_busy_worker_leaves_nothing_behind(few_servers: str) -> None:
    async with Penstock(few_servers) as app:

        @app.task(retry=Fixed(0.01), max_attempts=2)
        async def flaky(ctx: Context) -> None:
            ctx.progress(1, 2)
            if ctx.attempt == 1:
                raise ValueError("once")

        @app.task
        async def endless() -> None:
            await asyncio.Event().wait()

        @app.task
        async def exactly_once(ctx: Context) -> None:
            async with connected(few_servers) as connection, connection.transaction():
                await ctx.complete(connection)

        workers = [worker_of(app, {"default": 20}), worker_of(app, {"default": 20})]
        async with workers[0], workers[1]:
            jobs = await app.enqueue_many(
                task.options(delay=delay).prepare()
                for task in (flaky, exactly_once)
                for delay in (0, 0.1)
                for _ in range(25)
            )
            running = await app.enqueue(endless)
            await asyncio.gather(*(app.wait(job, timeout=60) for job in jobs))
            assert await app.cancel(running)
        await app.pause("default")
        await app.resume("default")
        await app.migrate()
    found = await traces(few_servers)
    assert len(found) == SERVERS
    assert [left for left in found.values() if left] == []


async def test_what_a_careless_client_leaves_would_be_found(few_servers: str) -> None:
    connection = await asyncpg.connect(few_servers)
    await connection.fetch("SELECT 1 AS one")
    await connection.execute("SET lock_timeout = 50")
    await connection.execute("LISTEN news")
    left = sorted(each for found in (await traces(few_servers)).values() for each in found)
    assert left == ["listens to news", "prepared SELECT 1 AS one", "setting lock_timeout = 50"]
    await connection.close()
