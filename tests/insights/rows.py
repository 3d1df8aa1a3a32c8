"""Jobs, settings, grants and buckets as rows, without any worker."""

from datetime import timedelta
from typing import Any

import asyncpg

INFO = '{"queues": {"imports": 4, "default": 4}, "tasks": ["render"]}'


async def fair(connection: asyncpg.Connection, queue: str = "imports", **columns: Any) -> None:
    """A fair queue with these settings."""
    await _insert(connection, "queue", name=queue, fair=True, **columns)


async def put(
    connection: asyncpg.Connection,
    tenant: str = "",
    *,
    queue: str = "imports",
    jobs: int = 1,
    limits: list[str] | None = None,
    age: float = 0,
    priority: int = 0,
) -> int:
    """Ready jobs that were enqueued some seconds ago; the id of the first."""
    rows = await connection.fetch(
        "SELECT penstock.enqueue('render', queue => $1, tenant => $2, limits => $3, priority => $4)"
        " AS id FROM generate_series(1, $5::integer)",
        *(queue, tenant, limits, priority, jobs),
    )
    ids = [row["id"] for row in rows]
    await connection.execute(
        "UPDATE penstock.job SET created_at = created_at - $2::interval, "
        "run_at = run_at - $2::interval, ready_at = ready_at - $2::interval WHERE id = ANY ($1)",
        *(ids, timedelta(seconds=age)),
    )
    return int(ids[0])


async def lease(
    connection: asyncpg.Connection, worker: str, *, info: str = INFO, seconds: float = 60
) -> int:
    """A worker that lives, without a process."""
    found: int = await connection.fetchval(
        "SELECT penstock.open_lease_v1($1, $2, $3)", worker, seconds, info
    )
    return found


async def run(connection: asyncpg.Connection, by: int, *jobs: int) -> None:
    """Some jobs run under a lease."""
    await connection.execute(
        "UPDATE penstock.job SET state = 'running', lease = $1, token = gen_random_uuid(), "
        "attempt = attempt + 1, attempted_at = clock_timestamp() WHERE id = ANY ($2::bigint[])",
        *(by, list(jobs)),
    )


async def set_lane(
    connection: asyncpg.Connection, lane: str, queue: str = "imports", **columns: Any
) -> None:
    await _insert(connection, "lane_setting", queue=queue, lane=lane, **columns)


async def limit(connection: asyncpg.Connection, key: str, **columns: Any) -> None:
    await _insert(connection, "limit_setting", key=key, **columns)


async def grant(
    connection: asyncpg.Connection, by: int, key: str, slots: int, wanted: int | None = None
) -> None:
    """A worker holds slots of a limit, and wants as many unless said."""
    wants = slots if wanted is None else wanted
    await _insert(connection, '"grant"', lease=by, key=key, slots=slots, wanted=wants)


async def bucket(
    connection: asyncpg.Connection, key: str, level: float, *, closed: float = 0, age: float = 0
) -> None:
    """What was left in a bucket some seconds ago, and for how long it is closed."""
    await connection.execute(
        "INSERT INTO penstock.bucket (key, level, filled_at, closed_until) "
        "VALUES ($1, $2, clock_timestamp() - $3::interval, clock_timestamp() + $4::interval)",
        *(key, level, timedelta(seconds=age), timedelta(seconds=closed) if closed else None),
    )


async def plan(connection: asyncpg.Connection, name: str, tenant: str, **columns: Any) -> None:
    """A plan, and a tenant who has it."""
    await _insert(connection, "plan", name=name, **columns)
    await _insert(connection, "tenant_setting", tenant=tenant, plan=name)


async def _insert(connection: asyncpg.Connection, table: str, **columns: Any) -> None:
    places = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
    await connection.execute(
        f"INSERT INTO penstock.{table} ({', '.join(columns)}) VALUES ({places})", *columns.values()
    )
