"""How long a claim takes with many ready jobs behind it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from penstock.bench.bare_loop import CLAIM, BareLoop
from penstock.bench.drain import typical
from penstock.bench.ground import Ground
from penstock.bench.live import Live

SMALL = 1000
CLAIMS = 50


async def claim_times(ground: Ground, sizes: Sequence[int], live: Live) -> list[dict[str, Any]]:
    """The median of 50 claims of 500 jobs, with a small backlog and with each of the sizes."""
    entries = []
    for size in sorted({SMALL, *sizes}):
        with live.doing(f"fill a backlog of {size:,} jobs"):
            await ground.clear()
            await ground.fill_fast(size)
            await ground.tidy()
        with live.doing(f"claim from {size:,} jobs"):
            took = await _claims(ground)
        live.result(f"claim of {CLAIM} from {size:,} jobs", f"{typical(took) * 1000:>10,.1f} ms")
        entries.append({"jobs": size, "claim_ms": round(typical(took) * 1000, 2)})
    return entries


async def _claims(ground: Ground) -> list[float]:
    """Each claim is settled and made up for, so that the backlog stays what it is."""
    loop = BareLoop(ground.schema, ground.connection, ground.connection)
    await loop.open()
    took = []
    for _ in range(CLAIMS):
        began = time.monotonic()
        rows = await loop.claim()
        took.append(time.monotonic() - began)
        await loop.settle(rows)
        await ground.fill(CLAIM)
    return took
