"""A drain past millions of dead entries that a held snapshot keeps from being cleaned up."""

from __future__ import annotations

import time
from typing import Any

from penstock.bench.drain import drain
from penstock.bench.ground import Ground
from penstock.bench.live import Live

AT_ONCE = 50_000

# Throwaway jobs go the way of all jobs, but for the copy into history, which plays no part here.
CLAIM = """
SELECT count(*) FROM claim_v1($1, 'default', '{""}', '{0}', ARRAY[$2::timestamptz], '{0}', NULL, $3)
"""
REMOVE = "DELETE FROM job WHERE state = 'running' AND lease = $1"


async def past_the_dead(
    ground: Ground, jobs: int, dead: int, free_rate: float, live: Live
) -> dict[str, Any]:
    """The rate of a drain that begins with so many dead entries, against that of a free one."""
    await ground.clear()
    async with ground.held_snapshot():
        with live.doing(f"leave {dead:,} dead entries"):
            await _leave_dead(ground, dead, live)
        await ground.fill(jobs)
        began = time.monotonic()
        with live.doing("drain past the dead"):
            one = await drain(ground, jobs, lambda done, _: live.progress(done, jobs))
    live.result(f"drain past {dead:,} dead entries", f"{one.rate:>10,.0f} jobs/s")
    return {
        "entries": dead,
        "jobs_per_s": round(one.rate, 1),
        "over_free": round(one.rate / free_rate, 3),
        "last_over_first": round(one.last_over_first, 3),
        # With the start of the process and the first look at the queue, which must pass the dead.
        "first_claim_s": round(one.timeline.began - began, 2),
    }


async def _leave_dead(ground: Ground, dead: int, live: Live) -> None:
    connection = ground.connection
    lease = await ground.app.store.open_lease(connection, "throwaway", 86_400.0, {})
    for done in range(0, dead, AT_ONCE):
        count = min(AT_ONCE, dead - done)
        mark = await connection.fetchval("SELECT clock_timestamp()")
        await ground.fill_fast(count)
        await connection.execute(CLAIM, lease, mark, count)
        await connection.execute(REMOVE, lease)
        live.progress(done + count, dead)
