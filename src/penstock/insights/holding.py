"""What holds a job's lane back: a pause, the hour, and limits."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime

from penstock.insights.limits import LimitInsight
from penstock.insights.turn import Turn, budget_of
from penstock.insights.wait import Wait
from penstock.job import Job
from penstock.wording import counted, listed, span


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
