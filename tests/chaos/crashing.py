"""A Postgres of the test's own, to be crashed as often as one likes."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.embedded import Server
from penstock.migrate import migrate
from tests.fixtures.database import connected
from tests.fixtures.server import BINARIES, fast_folder
from tests.fixtures.until import until

IS_WRITTEN = "SELECT pg_current_wal_flush_lsn() > $1::text::pg_lsn"


class CrashingServer:
    """A server that is stopped without a word to anyone and started again."""

    def __init__(self, server: Server, url: str) -> None:
        self._server = server
        self.url = url
        self.admin_url = server.admin_url().replace("/postgres?", "/penstock?")

    async def crash(self, away: float) -> None:
        """As `pg_ctl stop -m immediate`: every process is gone, nothing is written. Then start."""
        await asyncio.to_thread(self._server.stop, "immediate")
        await asyncio.sleep(away)
        await asyncio.to_thread(self._server.start)

    async def write_log(self) -> None:
        """Let the log be written now: by itself the server does not do so for ten seconds then."""
        async with connected(self.admin_url) as admin:
            before = await admin.fetchval("SELECT pg_current_wal_insert_lsn()::text")
            await admin.execute("SELECT pg_logical_emit_message(true, 'chaos', '')")
            await admin.execute("SELECT pg_reload_conf()")
            await until(lambda: admin.fetchval(IS_WRITTEN, before), what="the log to be written")


@asynccontextmanager
async def crashing_server() -> AsyncIterator[CrashingServer]:
    """A migrated server that runs."""
    with tempfile.TemporaryDirectory(prefix="penstock-crashing-", dir=fast_folder()) as folder:
        server = Server(Path(folder, "server"), bin_dir=os.environ.get(BINARIES) or None)
        hold = await asyncio.to_thread(server.acquire)
        try:
            await _forgo_durability(server.admin_url())
            await migrate(hold.url)
            yield CrashingServer(server, hold.url)
        finally:
            await asyncio.to_thread(server.stop, "immediate")
            await asyncio.to_thread(hold.release)


async def _forgo_durability(url: str) -> None:
    """What nobody insists on is lost in a crash: the queue must insist where it promises.

    What the kernel has taken over is safe: the machine is not crashed.
    """
    async with connected(url) as connection:
        await connection.execute("ALTER SYSTEM SET fsync = off")
        await connection.execute("ALTER SYSTEM SET synchronous_commit = off")
        await connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        await connection.execute("SELECT pg_reload_conf()")
