"""The longer measurements that a run adds on request: processes, backlogs, memory, dead entries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from penstock.bench.ceiling import CLAIM_SIZE, BareLoop
from penstock.bench.child import BenchFailed
from penstock.bench.drain import drain, typical
from penstock.bench.ground import Ground
from penstock.bench.plan import Plan
from penstock.bench.report import Live


async def against_one(ground: Ground, plan: Plan, live: Live) -> dict[str, Any]:
    """Rates of one and of several, in turn."""
    rates: dict[int, list[float]] = {1: [], plan.processes: []}
    for _ in range(plan.rounds):
        for count, seen in rates.items():
            await ground.refill(plan.jobs)
            what = f"drain by {count} process{'es' if count > 1 else ''}"
            with live.doing(what):
                one = await drain(
                    ground,
                    plan.jobs,
                    lambda done, _: live.progress(done, plan.jobs),
                    processes=count,
                )
            seen.append(one.rate)
            live.result(what, f"{one.rate:>10,.0f} jobs/s")
    alone, together = typical(rates[1]), typical(rates[plan.processes])
    return {
        "count": plan.processes,
        "jobs_per_s": round(together, 1),
        "one_jobs_per_s": round(alone, 1),
        "ratio": round(together / alone, 3),
    }


SMALL_BACKLOG_JOBS = 1000
CLAIMS_PER_BACKLOG = 50


async def claim_times(ground: Ground, sizes: Sequence[int], live: Live) -> list[dict[str, Any]]:
    """The median of 50 claims of 500 jobs, with a small backlog and with each of the sizes."""
    entries = []
    for size in sorted({SMALL_BACKLOG_JOBS, *sizes}):
        with live.doing(f"fill a backlog of {size:,} jobs"):
            await ground.clear()
            await ground.fill_fast(size)
            await ground.tidy()
        with live.doing(f"claim from {size:,} jobs"):
            took = await _time_claims(ground)
        live.result(
            f"claim of {CLAIM_SIZE} from {size:,} jobs", f"{typical(took) * 1000:>10,.1f} ms"
        )
        entries.append({"jobs": size, "claim_ms": round(typical(took) * 1000, 2)})
    return entries


async def _time_claims(ground: Ground) -> list[float]:
    """Each claim is settled and made up for, so that the backlog stays what it is."""
    loop = BareLoop(ground.schema, ground.connection, ground.connection)
    await loop.open()
    took = []
    for _ in range(CLAIMS_PER_BACKLOG):
        began = time.monotonic()
        rows = await loop.claim()
        took.append(time.monotonic() - began)
        await loop.settle(rows)
        await ground.fill(CLAIM_SIZE)
    return took


async def memory(ground: Ground, jobs: int, live: Live) -> dict[str, Any]:
    """Resident memory after a tenth of the jobs and after all of them."""
    seen: list[tuple[int, int]] = []

    def note(done: int, rss: Sequence[int]) -> None:
        seen.append((done, sum(rss)))
        live.progress(done, jobs)

    with live.doing(f"enqueue {jobs:,} jobs"):
        await ground.clear()
        await ground.fill_fast(jobs)
        await ground.tidy()
    with live.doing("soak"):
        one = await drain(ground, jobs, note)
    after_tenth = [rss for done, rss in seen if done >= jobs / 10 and rss]
    if not after_tenth:
        raise BenchFailed("This system does not tell how much memory a process uses.")
    first, last = after_tenth[0] / 2**20, after_tenth[-1] / 2**20
    live.result(f"memory over {jobs:,} jobs", f"{first:>10,.1f} → {last:,.1f} MB")
    return {
        "jobs": jobs,
        "jobs_per_s": round(one.rate, 1),
        "rss_mb_at_tenth": round(first, 1),
        "rss_mb_at_end": round(last, 1),
        "ratio": round(last / first, 3),
    }


THROWAWAY_JOBS_PER_BATCH = 50_000

# Throwaway jobs go the way of all jobs, but for the copy into history, which plays no part here.
CLAIM_THROWAWAY_JOBS = """
SELECT count(*) FROM claim_v1($1, 'default', '{""}', '{0}', ARRAY[$2::timestamptz], '{0}', NULL, $3)
"""
REMOVE_THROWAWAY_JOBS = "DELETE FROM job WHERE state = 'running' AND lease = $1"


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
    for done in range(0, dead, THROWAWAY_JOBS_PER_BATCH):
        count = min(THROWAWAY_JOBS_PER_BATCH, dead - done)
        mark = await connection.fetchval("SELECT clock_timestamp()")
        await ground.fill_fast(count)
        await connection.execute(CLAIM_THROWAWAY_JOBS, lease, mark, count)
        await connection.execute(REMOVE_THROWAWAY_JOBS, lease)
        live.progress(done + count, dead)
