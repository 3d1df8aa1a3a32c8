"""What keeps a job waiting: its turn, the jobs before it, a pause, a window or limits."""

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
    """One reason, and what to do about it."""

    kind: Kind
    message: str


NAMED: Final = 5


def parent_wait(job: Job, parents: Sequence[Awaited]) -> Wait:
    """Why a job waits that waits for others: those it waits for, what holds it up first."""
    left = [each for each in parents if not each.satisfied]
    if not left:
        return Wait("blocked", "It waits for other jobs to end.")
    ended = [each for each in left if each.state in ("failed", "cancelled", "missing")]
    shown = [*ended, *(each for each in left if each not in ended)][:NAMED]
    more = f" and {len(left) - NAMED:,} more" if len(left) > NAMED else ""
    told = f"It waits for {counted(len(left), 'job')}: {', '.join(map(str, shown))}{more}."
    if job.reason == "parent_failed" and ended:
        told += _remedy(job, ended)
    return Wait("blocked", told)


def _remedy(job: Job, ended: Sequence[Awaited]) -> str:
    """What a person does about parents that did not complete, as a sentence more."""
    told, it = (" That", "it") if len(ended) == 1 else (" Those that ended", "them")
    again = [each for each in ended if each.state != "missing"]
    retry = f"jobs retry {again[0].id}" if len(again) == 1 else f"workflows retry {job.workflow}"
    run = f"`penstock {retry}` runs {it} again, " if again else ""
    unblock = f"`penstock jobs unblock {job.id}` lets this one go on without {it}."
    return f"{told} did not complete: {run}{unblock}"


# A job's reason for waiting begins so if a budget had no units for it.
BUDGET = "budget:"


class Turn(Struct, frozen=True, kw_only=True):
    """Where a waiting job stands in its queue."""

    paused_at: datetime | None = None
    """Since when its lane has been paused."""
    window: Window = Window()
    others: Count = Count(0)
    """The other lanes with ready jobs, which take turns with its own."""
    ahead: Count = Count(0)
    """The ready jobs before it in its lane."""
    limits: tuple[LimitInsight, ...] = ()
    """The limits that hold for it."""


def keys_of(job: Job) -> list[str]:
    """The keys of all limits that may hold for a job."""
    own = (f"queue:{job.queue}", f"lane:{job.queue}:{job.lane}", f"task:{job.task}")
    budget = budget_of(job)
    return list(dict.fromkeys([*own, *job.limits, *([budget] if budget else [])]))


def budget_of(job: Job) -> str | None:
    """The key of the budget that a job was put off for, if it was."""
    is_put_off = job.state == SCHEDULED and (job.reason or "").startswith(BUDGET)
    return (job.reason or "").removeprefix(BUDGET) if is_put_off else None


def turn_from(row: Row | None, limits: tuple[LimitInsight, ...], most: int) -> Turn:
    """A turn from the row of `get_turn`, which counted up to `most`."""
    if row is None:
        return Turn(limits=limits)
    return Turn(
        paused_at=row["paused_at"],
        window=lane_window(row),
        others=Count.of(row["lanes"], most),
        ahead=Count.of(row["ahead"], most),
        limits=limits,
    )


def lane_pause(job: Job, turn: Turn) -> Iterator[Wait]:
    """Its lane is paused, however many workers are free."""
    if turn.paused_at is not None:
        command = f"penstock lanes set {job.queue} {shlex.quote(job.lane)} --resume"
        yield Wait(
            "lane_paused", f"Its lane {job.lane!r} of the queue is paused. `{command}` ends that."
        )


def closed_window(job: Job, turn: Turn, at: datetime) -> Iterator[Wait]:
    """It is not the hour for it."""
    if turn.window.is_open:
        return
    opens = turn.window.changes_at(at)
    if opens is None:
        told = f"The windows of the queue {job.queue} and its lane are never open at the same time."
    else:
        told = f"Its window is closed until {opens:%Y-%m-%d %H:%M:%S} UTC."
    yield Wait("window_closed", told)


def full_limits(turn: Turn, at: datetime) -> Iterator[Wait]:
    """Limits that let no more jobs begin just now."""
    for limit in turn.limits:
        if limit.is_full:
            yield Wait("limit", _full(limit))
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
                f"The limit {limit.key} lets {_pace(limit.rate or 0)} begin, and the next one in "
                f"{span(limit.refills_in)}.",
            )


def missing_budget(job: Job, turn: Turn, due: str) -> Iterator[Wait]:
    """The budget that its handler asked had no units for it."""
    key = budget_of(job)
    if key is None:
        return
    told = f"The budget {key} had no units for it: it is tried again at {due}."
    limit = next((each for each in turn.limits if each.key == key), None)
    if limit is not None and limit.closed_until is not None:
        told += f" It is closed until {limit.closed_until:%Y-%m-%d %H:%M:%S} UTC."
    elif limit is not None and limit.level is not None:
        told += f" There are {limit.level:,.0f} of {limit.burst:,.0f} now."
    yield Wait("budget", told)


def _full(limit: LimitInsight) -> str:
    if not limit.slots:
        return f"The limit {limit.key} lets no job run: it has 0 slots."
    holders = [f"{each.slots} by {each.worker}" for each in limit.workers if each.slots]
    return (
        f"The limit {limit.key} lets {counted(limit.slots, 'job')} run at once, and all slots are "
        f"held: {listed(holders)}."
    )


def _pace(rate: float) -> str:
    if rate >= 1:
        return f"{rate:g} jobs a second"
    return f"a job every {span(1 / rate)}"
