"""What type checkers must know of local pools.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from typing import assert_type

from penstock import LocalPool, Penstock, PoolCounts
from penstock.telemetry import CallsDropped

app = Penstock()


@app.task
async def size(url: str) -> int:
    return len(url)


async def track(user: str, *, depth: int = 1) -> None: ...


def note(text: str) -> int:
    return len(text)


def submitted() -> None:
    pool = app.local_pool("audit", workers=4, slots=10)
    assert_type(pool, LocalPool)
    assert_type(pool.submit(track, "ada", depth=2), bool)
    assert_type(pool.submit(note, "x"), bool)
    assert_type(pool.submit(size, "https://a.b"), bool)
    assert_type(pool.counts, PoolCounts)
    assert_type(pool.counts.dropped, int)
    assert_type(pool.sync.idle(5), None)
    assert_type(pool.sync.drain(5), int)
    pool.submit(track, 1)  # type: ignore[arg-type]
    pool.submit(note)  # type: ignore[call-arg]
    pool.submit(track("ada"))  # type: ignore[arg-type]
    app.events.subscribe(CallsDropped, lambda event: assert_type(event.count, int))


async def waited() -> None:
    async with LocalPool(workers=2) as pool:
        assert_type(pool, LocalPool)
        assert_type(await pool.idle(), None)
        assert_type(await pool.drain(timeout=1.5), int)
    with LocalPool("other") as other:
        assert_type(other, LocalPool)
