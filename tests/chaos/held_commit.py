"""A commit that waits on the server, so that a test can kill the client in the middle of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.fixtures.database import connected
from tests.fixtures.until import until

KEY = 20_000
EVENTS = {
    "job": "UPDATE",
    "job_history": "INSERT",
    "schedule_fire": "INSERT",
    "batch": "UPDATE",
}

INSTALL = f"""
CREATE FUNCTION chaos.hold_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({KEY});
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER hold_commit AFTER %s ON penstock.%s
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos.hold_commit();
"""
WAITING = f"""
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND objid = {KEY} AND NOT granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class HeldCommit:
    """The commits of one table's changes, all of which wait until the block ends."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def waiting(self) -> int:
        """Wait for the first commit that hangs: the process id of its backend."""
        backend: int = await until(
            lambda: self._connection.fetchval(WAITING), what="a commit that hangs"
        )
        return backend

    async def roll_back(self, backend: int) -> None:
        await self._connection.execute("SELECT pg_terminate_backend($1, 5000)", backend)


@asynccontextmanager
async def held_commit(url: str, table: str) -> AsyncIterator[HeldCommit]:
    """Let no change of a table be committed; at the end all go through."""
    async with connected(url) as connection:
        await connection.execute(INSTALL % (EVENTS[table], table))
        await connection.execute("SELECT pg_advisory_lock($1)", KEY)
        yield HeldCommit(connection)
        await connection.execute("SELECT pg_advisory_unlock($1)", KEY)
