"""What a look-up by id costs with a year of history: `python -m benchmarks.history`.

With the usual retention and with one of 400 days, in one run: the locks and the milliseconds of a
get, and how many gets of 20 readers fail.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg

from penstock import Penstock
from penstock.embedded import Server
from penstock.migrate.runner import migrate
from penstock.sql import statement

DAYS = 400
LOOKS = 200
READERS = 20
# The partitions that were made on each day before, while their time has not come.
MADE_BEFORE = """
SELECT penstock.ensure_partitions_v1(p_also => array_agg(DISTINCT d.day))
  FROM generate_series(1, $2::integer + 1) AS ago,
       LATERAL (SELECT penstock.expires_on_v1($1::date - ago, $2::integer) AS day) AS d
 WHERE d.day >= $1::date
"""
LOCKS = "SELECT count(DISTINCT relation) FROM pg_locks WHERE pid = $1"


async def jobs(connection: asyncpg.Connection, days: int) -> dict[str, int]:
    """A job of each kind: one that lives, some that have ended, and one that is not there."""
    live, today, old, far = [
        await connection.fetchval("SELECT penstock.enqueue('work')") for _ in range(4)
    ]
    await connection.execute("SELECT penstock.cancel_v1($1)", [today, old, far])
    now = datetime.now(UTC).date()
    longest = await connection.fetchval("SELECT penstock.expires_on_v1($1, $2)", now, days)
    for job, day in ((old, now + timedelta(days=1)), (far, longest)):
        move = "UPDATE penstock.job_history SET expires_on = $2 WHERE id = $1"
        await connection.execute(move, job, day)
    return {
        "live": live,
        "ended today": today,
        "ended a week ago": old,
        "kept longest": far,
        "missing": 10**12,
    }


async def locks_of(url: str, watcher: asyncpg.Connection, job: int) -> int:
    """Of a new connection: the first look plans, which locks most."""
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await connection.fetch(statement("get_jobs", "penstock"), [job])
        count = await watcher.fetchval(LOCKS, connection.get_server_pid())
    await connection.close()
    return int(count)


async def milliseconds(url: str, job: int) -> float:
    """The least of some looks on one connection."""
    connection = await asyncpg.connect(url)
    took = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        await connection.fetch(statement("get_jobs", "penstock"), [job])
        took.append(time.perf_counter() - began)
    await connection.close()
    return min(took) * 1000


async def failed_gets(url: str, ids: Mapping[str, int]) -> int:
    """Of 20 readers that look at all kinds at the same time."""
    failed = 0

    async def read(connection: asyncpg.Connection) -> None:
        nonlocal failed
        for look in range(LOOKS):
            job = list(ids.values())[look % len(ids)]
            try:
                await connection.fetch(statement("get_jobs", "penstock"), [job])
            except asyncpg.OutOfMemoryError:
                failed += 1

    connections = [await asyncpg.connect(url) for _ in range(READERS)]
    await asyncio.gather(*map(read, connections))
    for connection in connections:
        await connection.close()
    return failed


async def measure(url: str) -> None:
    await migrate(url)
    connection = await asyncpg.connect(url)
    usual: dict[str, float] = {}
    for days in (30, DAYS):
        if days == DAYS:
            async with Penstock(url) as app:
                await app.set_retention("failed", DAYS)
        await connection.fetchval(MADE_BEFORE, datetime.now(UTC).date(), days)
        partitions = await connection.fetchval("SELECT cardinality(penstock.list_partitions_v1())")
        print(f"failed jobs kept for {days} days: {partitions} partitions")
        ids = await jobs(connection, days)
        for kind, job in ids.items():
            took = await milliseconds(url, job)
            ratio = f"   × {took / usual[kind]:.2f}" if kind in usual else ""
            usual.setdefault(kind, took)
            locks = await locks_of(url, connection, job)
            print(f"  {kind:18} {locks:4} locks {took:7.2f} ms{ratio}")
        failed = await failed_gets(url, ids)
        print(f"  {READERS} readers × {LOOKS} gets: {failed} failed")
    await connection.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder, "server")).hold() as url:
        asyncio.run(measure(url))


if __name__ == "__main__":
    main()
