"""The measurements that a run adds on request: processes, backlogs, memory, dead entries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from penstock.bench.ceiling import CLAIM_SIZE, BareLoop
from penstock.bench.child import BenchFailed
from penstock.bench.drain import drain, median_of
from penstock.bench.plan import BenchPlan
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import Sandbox


async def compare_processes(sandbox: Sandbox, plan: BenchPlan, live: LiveLine) -> dict[str, Any]:
    """Compare the drain by several worker processes with the drain by one, in turn."""
    rates: dict[int, list[float]] = {1: [], plan.processes: []}
    for _ in range(plan.rounds):
        for count, measured in rates.items():
            await sandbox.refill(plan.jobs)
            label = f"drain by {count} process{'es' if count > 1 else ''}"
            with live.doing(label):
                result = await drain(
                    sandbox,
                    plan.jobs,
                    lambda done, _: live.progress(done, plan.jobs),
                    processes=count,
                )
            measured.append(result.rate)
            live.result(label, f"{result.rate:>10,.0f} jobs/s")
    rate_of_one, rate_of_all = median_of(rates[1]), median_of(rates[plan.processes])
    return {
        "count": plan.processes,
        "jobs_per_s": round(rate_of_all, 1),
        "one_jobs_per_s": round(rate_of_one, 1),
        "ratio": round(rate_of_all / rate_of_one, 3),
    }


SMALL_BACKLOG_JOBS = 1000
CLAIMS_PER_BACKLOG = 50


async def measure_claims(
    sandbox: Sandbox, sizes: Sequence[int], live: LiveLine
) -> list[dict[str, Any]]:
    """Time 50 claims of 500 jobs with a small backlog, and with a backlog of each size."""
    entries = []
    for size in sorted({SMALL_BACKLOG_JOBS, *sizes}):
        with live.doing(f"fill a backlog of {size:,} jobs"):
            await sandbox.clear()
            await sandbox.fill_fast(size)
            await sandbox.vacuum()
        with live.doing(f"claim from {size:,} jobs"):
            claim_ms = median_of(await _time_claims(sandbox)) * 1000
        live.result(f"claim of {CLAIM_SIZE} from {size:,} jobs", f"{claim_ms:>10,.1f} ms")
        entries.append({"jobs": size, "claim_ms": round(claim_ms, 2)})
    return entries


async def _time_claims(sandbox: Sandbox) -> list[float]:
    """Return the duration of each claim in seconds.

    After each claim, the claimed jobs are settled and replaced by new ones, so the backlog keeps
    its size.
    """
    loop = BareLoop(sandbox.schema, sandbox.connection, sandbox.connection)
    await loop.open()
    seconds = []
    for _ in range(CLAIMS_PER_BACKLOG):
        began = time.monotonic()
        rows = await loop.claim()
        seconds.append(time.monotonic() - began)
        await loop.settle(rows)
        await sandbox.fill(CLAIM_SIZE)
    return seconds


async def measure_memory(sandbox: Sandbox, jobs: int, live: LiveLine) -> dict[str, Any]:
    """Compare a worker's resident memory after a tenth of the jobs with that after all of them."""
    samples: list[tuple[int, int]] = []

    def record(done: int, rss: Sequence[int]) -> None:
        samples.append((done, sum(rss)))
        live.progress(done, jobs)

    with live.doing(f"enqueue {jobs:,} jobs"):
        await sandbox.clear()
        await sandbox.fill_fast(jobs)
        await sandbox.vacuum()
    with live.doing("soak"):
        result = await drain(sandbox, jobs, record)
    after_tenth = [rss for done, rss in samples if done >= jobs / 10 and rss]
    if not after_tenth:
        raise BenchFailed("The operating system does not report how much memory a process uses.")
    first, last = after_tenth[0] / 2**20, after_tenth[-1] / 2**20
    live.result(f"memory over {jobs:,} jobs", f"{first:>10,.1f} → {last:,.1f} MB")
    return {
        "jobs": jobs,
        "jobs_per_s": round(result.rate, 1),
        "rss_mb_at_tenth": round(first, 1),
        "rss_mb_at_end": round(last, 1),
        "ratio": round(last / first, 3),
    }


THROWAWAY_JOBS_PER_BATCH = 50_000

# Throwaway jobs are enqueued and claimed as all jobs are, and then deleted. They are not copied
# into the history, because that does not matter here.
CLAIM_THROWAWAY_JOBS = """
SELECT count(*) FROM claim_v1($1, 'default', '{""}', '{0}', ARRAY[$2::timestamptz], '{0}', NULL, $3)
"""
REMOVE_THROWAWAY_JOBS = "DELETE FROM job WHERE state = 'running' AND lease = $1"


async def drain_past_dead_entries(
    sandbox: Sandbox, jobs: int, dead: int, free_rate: float, live: LiveLine
) -> dict[str, Any]:
    """Drain a queue whose index has many entries of deleted jobs.

    A held snapshot keeps vacuum from removing these entries. The rate is compared with `free_rate`,
    the rate of a drain without them.
    """
    await sandbox.clear()
    async with sandbox.held_snapshot():
        with live.doing(f"leave {dead:,} dead entries"):
            await _leave_dead(sandbox, dead, live)
        await sandbox.fill(jobs)
        began = time.monotonic()
        with live.doing("drain past the dead"):
            result = await drain(sandbox, jobs, lambda done, _: live.progress(done, jobs))
    live.result(f"drain past {dead:,} dead entries", f"{result.rate:>10,.0f} jobs/s")
    return {
        "entries": dead,
        "jobs_per_s": round(result.rate, 1),
        "over_free": round(result.rate / free_rate, 3),
        "last_over_first": round(result.last_over_first, 3),
        # This includes the start of the process and its first scan of the queue, which must pass
        # the dead entries.
        "first_claim_s": round(result.timeline.began - began, 2),
    }


async def _leave_dead(sandbox: Sandbox, dead: int, live: LiveLine) -> None:
    connection = sandbox.connection
    lease = await sandbox.app.store.open_lease(connection, "throwaway", 86_400.0, {})
    for done in range(0, dead, THROWAWAY_JOBS_PER_BATCH):
        count = min(THROWAWAY_JOBS_PER_BATCH, dead - done)
        cursor = await connection.fetchval("SELECT clock_timestamp()")
        await sandbox.fill_fast(count)
        await connection.execute(CLAIM_THROWAWAY_JOBS, lease, cursor, count)
        await connection.execute(REMOVE_THROWAWAY_JOBS, lease)
        live.progress(done + count, dead)
