"""A worker's memory over many jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.bench.drain import drain
from penstock.bench.errors import BenchFailed
from penstock.bench.ground import Ground
from penstock.bench.live import Live


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
