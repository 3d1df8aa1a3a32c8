"""Jobs that ended, at a steady rate up to now."""

import asyncpg

FILL = """
INSERT INTO penstock.job_history (id, created_at, run_at, ready_at, attempted_at, finished_at,
       expires_on, attempt, failures, max_attempts, losses, max_losses, priority, args_version,
       has_children, state, queue, lane, task, tenant, args, reason)
SELECT -10000000 - n, f - interval '3 s', f - interval '3 s', f - interval '3 s',
       f - interval '1 s', f, (f AT TIME ZONE 'UTC')::date + 8, 1, 0, 5, 0, 3, 0, 1, false,
       'completed', 'default', '', 'work', '', '{}', NULL
  FROM (SELECT n, statement_timestamp() - make_interval(secs => n / $2::double precision) AS f
          FROM generate_series($1::integer, 0, -1) AS n) AS ended
"""


async def fill(connection: asyncpg.Connection, jobs: int, per_second: float) -> None:
    """Completed jobs, each of which had waited two seconds and run for one."""
    await connection.execute(FILL, jobs, per_second)
