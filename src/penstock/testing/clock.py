"""Letting time pass without waiting for it.

The database owns time in Penstock, and a test shares its database with nobody. So the clock is not
stopped or set: what the queue remembers is moved into the past instead. A job that was due in an
hour is due now, one that was made now was made an hour ago, and all distances between moments stay
as they were. Nothing is patched, so this holds for workers in any thread or process, for plain SQL,
and for a handler that compares `ctx.job.created_at` with `datetime.now(UTC)`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from penstock.app.app import Penstock
from penstock.errors import BadArgument
from penstock.testing.databases import expect_ground, left_as_it_was
from penstock.testing.faults import Levers


async def advance(
    app: Penstock,
    by: timedelta = timedelta(0),
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
) -> None:
    """Let time pass: delays, retries, deadlines, keys and history come due by that much.

        await app.enqueue(remind.options(delay=timedelta(days=1)), 42)
        await advance(app, days=1)
        await drain(app)

    `app.get` then shows a job as it would look after the wait: made a day ago, due now.
    """
    whole = by + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if whole < timedelta(0):
        raise BadArgument("advance", whole, "time that passes: 0 or more")
    await _advance(app, whole.total_seconds(), None)


async def advance_to(app: Penstock, moment: datetime | None) -> None:
    """Let time pass until a moment, such as when a job is due; none passes if it is over already.

    await advance_to(app, (await app.get(job)).run_at)
    """
    if moment is None or moment.utcoffset() is None:
        raise BadArgument("moment", moment, "a datetime with a time zone, such as job.run_at")
    await _advance(app, None, moment)


async def _advance(app: Penstock, seconds: float | None, moment: datetime | None) -> None:
    expect_ground(app, "advance")
    levers = Levers(app.store.schema)
    async with left_as_it_was(app):
        # History moves into other partitions, which the leader may be dropping others next to.
        await app._ask_past_locks(
            lambda on: levers.advance(on, seconds, moment), "No time has passed", again=False
        )
