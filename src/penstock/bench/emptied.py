"""Tenants whose jobs are all done, under a snapshot that keeps what is left of them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.bench.ground import QUEUE, Ground

AT_ONCE = 1000

# The jobs go the way of all jobs, but for the copy into history, which plays no part here.
CLAIM = """
SELECT count(*)
  FROM claim_v1($1, $2, $3, array_fill(0::smallint, ARRAY[$4::integer]),
                array_fill('-infinity'::timestamptz, ARRAY[$4]), array_fill(0::bigint, ARRAY[$4]),
                array_fill($5::integer, ARRAY[$4]), $4 * $5)
"""
REMOVE = "DELETE FROM job WHERE state = 'running' AND lease = $1"


async def leave_emptied(ground: Ground, tenants: Sequence[str], jobs: int) -> None:
    """So many jobs come and go, shared by the tenants."""
    await ground.fill(jobs, tenants)
    lease = await ground.app.store.open_lease(ground.connection, "emptied", 86_400.0, {})
    each = -(-jobs // len(tenants))
    for start in range(0, len(tenants), AT_ONCE):
        some = tenants[start : start + AT_ONCE]
        await ground.connection.execute(CLAIM, lease, QUEUE, some, len(some), each)
    await ground.connection.execute(REMOVE, lease)
