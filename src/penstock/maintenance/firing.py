"""What a schedule is to fire at a moment: a pure function of its rule, its past and the time."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, takewhile

from penstock.store.schedules import Due, Firing

# At once; the next look goes on with the rest.
MOST_TICKS = 100
# To count is work, and the worker does nothing else meanwhile: so many stand for so many or more.
MOST_COUNTED = 1_000


def firing(due: Due, now: datetime, grace: float) -> Firing:
    """The ticks since the last one up to now, and when to look again.

    Those older than the grace were missed: of these the last one stands for all, unless the
    schedule is to catch up with each.
    """
    rule, since = due.rule, due.done_until
    missed = None
    missed_ticks = 0
    if due.catch_up != "all":
        missed = rule.latest(since, now - timedelta(seconds=grace))
        if missed is not None:
            missed_ticks = rule.number(since, missed, MOST_COUNTED)
            since = missed
    ticks = list(islice(takewhile(lambda tick: tick <= now, rule.after(since)), MOST_TICKS))
    reached = ticks[-1] if len(ticks) == MOST_TICKS else max(now, since)
    return Firing(
        name=due.name,
        version=due.version,
        start=due.start,
        missed=missed,
        missed_ticks=missed_ticks,
        ticks=ticks,
        next_at=next(rule.after(reached)),
    )
