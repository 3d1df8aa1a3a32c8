"""Jobs that are enqueued over HTTP, many with one request."""

from __future__ import annotations

from benchmarks.before_after.scenes.answering import answering
from benchmarks.comparison.drain import Drain
from benchmarks.comparison.rounds import Lane
from benchmarks.http.load import many_jobs, send
from penstock.bench.child import BenchFailed

CONNECTIONS = 8
AT_ONCE = 100


async def served(lane: Lane) -> None:
    """From the first request to the last answer; all jobs are durable by then."""
    times = lane.jobs // AT_ONCE
    jobs, request = times * AT_ONCE, many_jobs(AT_ONCE)
    async with lane.fresh() as database:
        before = await lane.postgres.cpu_seconds()
        async with answering(lane, database) as (server, where):
            seen = await send(where["port"], CONNECTIONS, request, times)
            spent = await lane.postgres.spent_since(before)
            finished = await server.stop()
        async with database.connect() as connection:
            stored = await connection.fetchval(lane.entrant.facts.left)
    if stored != jobs:
        raise BenchFailed(f"Of {jobs} jobs {stored} are stored; answers: {dict(seen.statuses)}.")
    lane.note(
        "enqueue over HTTP",
        Drain(jobs, seen.seconds, (), finished.cpu_seconds, spent, finished.peak_rss or 0),
    )
