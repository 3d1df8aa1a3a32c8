"""A backlog of any size, of which a known small part is what each statement looks for."""

from hashlib import md5
from uuid import UUID

import asyncpg

# Of each kind there are twenty, however long the backlog is.
LOST = range(1, 21)  # they run under the lease that is dead
RUNNING = range(21, 41)  # they run under a lease of their own
DUE = range(41, 61)
LATE = range(61, 81)
FINAL = range(-20, 0)
LIVING, DEAD, OWN = 1, 2, 3  # leases

LOAD = """
INSERT INTO penstock.job (state, task, queue, lane, priority, ready_at, run_at, deadline, timeout,
                          lease, token, attempted_at, attempt, subject)
SELECT g.state, 'work', 'default', CASE g.n % 3 WHEN 0 THEN '' ELSE 'tenant ' || g.n % 3 END,
       g.n % 2, CASE WHEN g.state <> 'scheduled' THEN now() - interval '1 s' * (g.n % 1000) END,
       now() + CASE WHEN g.due THEN -1 ELSE 3600 + g.n % 1000 END * interval '1 s',
       CASE WHEN g.late THEN now() - interval '1 s'
            WHEN g.n % 100 = 0 THEN now() + interval '1 h' END,
       3600,
       CASE WHEN g.state = 'running' THEN g.lease END,
       CASE WHEN g.state = 'running' THEN md5(g.n::text)::uuid END,
       CASE WHEN g.state = 'running' THEN now() END,
       CASE WHEN g.state = 'running' THEN 1 ELSE 0 END,
       CASE WHEN g.n % 50 = 0 THEN 'document:' || g.n END
  FROM (SELECT n, CASE WHEN n <= 40 THEN 'running' WHEN n <= 80 THEN 'scheduled'
                       WHEN n % 20 = 1 THEN 'running' WHEN n % 20 = 2 THEN 'scheduled'
                       ELSE 'ready' END AS state,
               CASE WHEN n <= 20 THEN 2 WHEN n <= 40 THEN 3 ELSE 1 END AS lease,
               n BETWEEN 41 AND 60 AS due, n BETWEEN 61 AND 80 AS late
          FROM generate_series(1, $1::integer) AS n) AS g
"""
LOAD_HISTORY = """
INSERT INTO penstock.job_history (id, created_at, run_at, finished_at, last_token, expires_on,
       attempt, failures, max_attempts, losses, max_losses, priority, args_version, has_children,
       state, queue, lane, task, tenant, args)
SELECT -n, now(), now(), now(), md5(n::text)::uuid, current_date + 1 + n % 8, 1, 0, 5, 0, 3, 0, 1,
       false, 'completed', 'default', '', 'work', '', '{}'
  FROM generate_series(1, $1::integer) AS n
"""
# Ended jobs had said how far they were, and twenty that are gone.
LOAD_PROGRESS = """
INSERT INTO penstock.progress (job, done, updated_at)
SELECT -n, 1, now() - interval '3 days' FROM generate_series(1, $1::integer) AS n
UNION ALL
SELECT n, 1, now() - interval '50 days' FROM generate_series(2000001, 2000020) AS n
"""
LEASES = """
INSERT INTO penstock.lease (id, worker, expires_at)
SELECT n, 'worker', now() + CASE n WHEN 2 THEN -1 ELSE 1 END * interval '1 h'
  FROM generate_series(1, 20) AS n
"""
FIRES = """
INSERT INTO penstock.schedule_fire (schedule, tick, job)
SELECT 'often', now() + n * interval '1 s', n FROM generate_series(21, 40) AS n
"""
# Statistics come only when a test asks for them; nothing here needs to survive a crash.
STILL = """
ALTER TABLE penstock.job SET (autovacuum_enabled = off);
ALTER TABLE penstock.job SET UNLOGGED;
"""


async def prepare(connection: asyncpg.Connection) -> None:
    """Everything but the jobs."""
    await connection.execute(STILL)
    await connection.execute(LEASES)
    await connection.execute(FIRES)


async def load(connection: asyncpg.Connection, jobs: int, ended: int | None = None) -> None:
    """Replace the backlog; a tenth as many have ended, if nothing else is said."""
    await connection.execute("TRUNCATE penstock.job RESTART IDENTITY")
    await connection.execute("DELETE FROM penstock.job_history; DELETE FROM penstock.progress")
    if jobs:
        await connection.execute(LOAD, jobs)
        ended = jobs // 10 if ended is None else ended
        await connection.execute(LOAD_HISTORY, ended)
        await connection.execute(LOAD_PROGRESS, ended)


def token(id: int) -> UUID:
    """The token of a running job, or the last one of a final job."""
    return UUID(md5(str(abs(id)).encode()).hexdigest())
