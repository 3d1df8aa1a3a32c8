"""Find out what keeps a job waiting: other jobs, a pause, a window or limits."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from penstock.insights.counts import Count
from penstock.insights.limits import LimitInsight
from penstock.insights.queues import Window, lane_window
from penstock.job import SCHEDULED, Job
from penstock.store.insights import Row
from penstock.tasks.workflow import Awaited
from penstock.wording import counted, listed, span

Kind = Literal[
    "paused",
    "lane_paused",
    "window_closed",
    "no_worker",
    "other_tenants",
    "unknown_task",
    "bad_arguments",
    "missing_resource",
    "limit",
    "bucket_closed",
    "rate",
    "budget",
    "busy",
    "isolation",
    "in_line",
    "retry",
    "later",
    "overdue",
    "sleep",
    "poll",
    "event",
    "lost",
    "blocked",
]


class Wait(Struct, frozen=True):
    """One reason why a job waits, and what to do about it."""

    kind: Kind
    message: str


MAX_PARENTS_NAMED: Final = 5


def parent_wait(job: Job, parents: Sequence[Awaited]) -> Wait:
    """Explain for which jobs a blocked job waits. Jobs that ended without completing come first."""
    open_parents = [each for each in parents if not each.satisfied]
    if not open_parents:
        return Wait("blocked", "It waits for other jobs to end.")
    number = len(open_parents)
    ended = [each for each in open_parents if each.state in ("failed", "cancelled", "missing")]
    pending = [each for each in open_parents if each not in ended]
    shown = ", ".join(str(each) for each in [*ended, *pending][:MAX_PARENTS_NAMED])
    more = f" and {number - MAX_PARENTS_NAMED:,} more" if number > MAX_PARENTS_NAMED else ""
    message = f"It waits for {counted(number, 'job')}: {shown}{more}."
    if job.reason == "parent_failed" and ended:
        message += _remedy(job, ended)
    return Wait("blocked", message)


def _remedy(job: Job, ended: Sequence[Awaited]) -> str:
    """Return a sentence that says what to do about parents that did not complete."""
    subject, it = (" That", "it") if len(ended) == 1 else (" Those that ended", "them")
    again = [each for each in ended if each.state != "missing"]
    retry = f"jobs retry {again[0].id}" if len(again) == 1 else f"workflows retry {job.workflow}"
    run = f"`penstock {retry}` runs {it} again, " if again else ""
    unblock = f"`penstock jobs unblock {job.id}` lets this one go on without {it}."
    return f"{subject} did not complete: {run}{unblock}"


# The reason of a job begins with this if it was put off because a budget had no units.
BUDGET_PREFIX = "budget:"


class QueuePosition(Struct, frozen=True, kw_only=True):
    """Where a waiting job stands in its queue."""

    paused_at: datetime | None = None
    """Since when its lane has been paused."""
    window: Window = Window()
    others: Count = Count(0)
    """The number of other lanes with ready jobs, which take turns with its own."""
    ahead: Count = Count(0)
    """The number of ready jobs before it in its lane."""
    limits: tuple[LimitInsight, ...] = ()
    """The limits that apply to it."""


def limit_keys(job: Job) -> list[str]:
    """Return the keys of all limits that may apply to a job."""
    own = (f"queue:{job.queue}", f"lane:{job.queue}:{job.lane}", f"task:{job.task}")
    budget = budget_key(job)
    return list(dict.fromkeys([*own, *job.limits, *([budget] if budget else [])]))


def budget_key(job: Job) -> str | None:
    """Return the key of the budget that had no units for a job, or None if there is none."""
    is_put_off = job.state == SCHEDULED and (job.reason or "").startswith(BUDGET_PREFIX)
    return (job.reason or "").removeprefix(BUDGET_PREFIX) if is_put_off else None


def position_from(
    row: Row | None, limits: tuple[LimitInsight, ...], max_counted: int
) -> QueuePosition:
    """Build a `QueuePosition` from the row of `get_turn`, which counted up to `max_counted`."""
    if row is None:
        return QueuePosition(limits=limits)
    return QueuePosition(
        paused_at=row["paused_at"],
        window=lane_window(row),
        others=Count.of(row["lanes"], max_counted),
        ahead=Count.of(row["ahead"], max_counted),
        limits=limits,
    )


def lane_pause(job: Job, position: QueuePosition) -> Iterator[Wait]:
    """Yield a reason if the job's lane is paused."""
    if position.paused_at is not None:
        command = f"penstock lanes set {job.queue} {shlex.quote(job.lane)} --resume"
        yield Wait(
            "lane_paused", f"Its lane {job.lane!r} of the queue is paused. `{command}` ends that."
        )


def closed_window(job: Job, position: QueuePosition, at: datetime) -> Iterator[Wait]:
    """Yield a reason if the window of the job's lane or queue is closed."""
    if position.window.is_open:
        return
    opens = position.window.changes_at(at)
    if opens is None:
        message = (
            f"The windows of the queue {job.queue} and its lane are never open at the same time."
        )
    else:
        message = f"Its window is closed until {opens:%Y-%m-%d %H:%M:%S} UTC."
    yield Wait("window_closed", message)


def full_limits(position: QueuePosition, at: datetime) -> Iterator[Wait]:
    """Yield a reason for each limit that lets no more jobs start at the moment."""
    for limit in position.limits:
        if limit.is_full:
            yield Wait("limit", _full_limit_text(limit))
        if limit.closed_until is not None and limit.rate is not None:
            yield Wait(
                "bucket_closed",
                f"{limit.key} is closed for another "
                f"{span((limit.closed_until - at).total_seconds())}, as after an answer that says "
                f"Retry-After. `penstock limits open {shlex.quote(limit.key)}` opens it now.",
            )
        elif limit.refills_in is None:
            yield Wait("rate", f"The limit {limit.key} lets no job begin: its rate is 0.")
        elif limit.refills_in > 0:
            yield Wait(
                "rate",
                f"The limit {limit.key} lets {_rate_text(limit.rate or 0)} begin, and the next one "
                f"in {span(limit.refills_in)}.",
            )


def missing_budget(job: Job, position: QueuePosition, due: str) -> Iterator[Wait]:
    """Yield a reason if the job was put off because a budget had no units for its handler."""
    key = budget_key(job)
    if key is None:
        return
    message = f"The budget {key} had no units for it: it is tried again at {due}."
    limit = next((each for each in position.limits if each.key == key), None)
    if limit is not None and limit.closed_until is not None:
        message += f" It is closed until {limit.closed_until:%Y-%m-%d %H:%M:%S} UTC."
    elif limit is not None and limit.level is not None:
        message += f" There are {limit.level:,.0f} of {limit.burst:,.0f} now."
    yield Wait("budget", message)


def _full_limit_text(limit: LimitInsight) -> str:
    if not limit.slots:
        return f"The limit {limit.key} lets no job run: it has 0 slots."
    holders = [f"{each.slots} by {each.worker}" for each in limit.workers if each.slots]
    return (
        f"The limit {limit.key} lets {counted(limit.slots, 'job')} run at once, and all slots are "
        f"held: {listed(holders)}."
    )


def _rate_text(rate: float) -> str:
    if rate >= 1:
        return f"{rate:g} jobs a second"
    return f"a job every {span(1 / rate)}"
