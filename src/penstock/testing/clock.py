"""Lets time pass in a test, without waiting.

The database owns time in Penstock, and a test shares its database with nobody. So the clock is not
stopped or set. Instead, all stored times are moved into the past: a job that was due in an hour is
due now, and a job that was enqueued now was enqueued an hour ago. Nothing is patched, so this works
for workers in any thread or process, for plain SQL, and for a handler that compares
`ctx.job.created_at` with `datetime.now(UTC)`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from penstock.app.app import Penstock
from penstock.errors import BadArgument
from penstock.testing.databases import check_test_database, closed_again
from penstock.testing.faults import TestingStore


async def advance(
    app: Penstock,
    by: timedelta = timedelta(0),
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
) -> None:
    """Let time pass: delays, retries and deadlines come due, and keys and history expire.

        await app.enqueue(remind.options(delay=timedelta(days=1)), 42)
        await advance(app, days=1)
        await drain(app)

    Afterwards `app.get` shows the job as it would look after a wait: enqueued a day ago, due now.
    """
    duration = by + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if duration < timedelta(0):
        raise BadArgument("advance", duration, "time that passes: 0 or more")
    await _advance(app, duration.total_seconds(), None)


async def advance_to(app: Penstock, moment: datetime | None) -> None:
    """Let time pass until a moment, such as when a job is due. A past moment changes nothing.

    await advance_to(app, (await app.get(job)).run_at)
    """
    if moment is None or moment.utcoffset() is None:
        raise BadArgument("moment", moment, "a datetime with a time zone, such as job.run_at")
    await _advance(app, None, moment)


async def _advance(app: Penstock, seconds: float | None, moment: datetime | None) -> None:
    check_test_database(app, "advance")
    store = TestingStore(app.store.schema)
    async with closed_again(app):
        # History moves into other partitions, while a leader may be dropping some of them.
        await app._execute_past_locks(
            lambda on: store.advance(on, seconds, moment), "No time has passed", retry=False
        )
