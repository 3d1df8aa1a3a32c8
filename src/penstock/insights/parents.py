"""Which jobs a blocked one waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.insights.wait import Wait
from penstock.job import Job
from penstock.tasks.parent import Awaited
from penstock.wording import counted

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
