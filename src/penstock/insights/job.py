"""One job, where it is, and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from penstock.insights.place import Place
from penstock.insights.steps import StepInsight
from penstock.insights.turn import Turn
from penstock.insights.wait import Wait
from penstock.job import READY, RUNNING, SCHEDULED, Job
from penstock.store.unique import Holder
from penstock.wording import span


class Moment(Struct, frozen=True):
    """One thing that happened to a job, or is to happen."""

    at: datetime
    what: str


class JobInsight(Struct, frozen=True, kw_only=True):
    """One job: the row, where it is, why it waits, and what happened to it."""

    job: Job
    place: Place
    turn: Turn | None
    """When it is to run, if it waits for that."""
    waits: tuple[Wait, ...]
    timeline: tuple[Moment, ...]
    holder: Holder | None = None
    """Who holds its unique key, if it has one and somebody does."""
    steps: tuple[StepInsight, ...] = ()
    """What it has kept from attempt to attempt."""

    @property
    def why(self) -> str:
        """Why it has not ended yet, in sentences; empty if it has, or if nobody may say."""
        if self.waits or self.job.state != RUNNING or self.job.attempted_at is None:
            return " ".join(wait.message for wait in self.waits)
        worker = f"Worker {self.place.worker}" if self.place.worker else "A worker"
        seconds = (self.place.at - self.job.attempted_at).total_seconds()
        return f"{worker} has been running its attempt {self.job.attempt} for {span(seconds)}."


def timeline_of(job: Job) -> tuple[Moment, ...]:
    """What happened to a job, as far as its row remembers, in order."""
    return tuple(sorted(_moments(job), key=lambda moment: moment.at))


def _moments(job: Job) -> Iterator[Moment]:
    yield Moment(job.created_at, "enqueued")
    begun = sorted(_begun(job))
    yield from _untold(begun)
    for attempt, began in begun:
        yield Moment(began, f"attempt {attempt} began")
    for error in job.errors:
        if error.at is not None:
            yield Moment(error.at, f"attempt {error.attempt}: {error.type}")
    for end in job.earlier_ends:
        if end.at is not None:
            yield Moment(end.at, f"attempt {end.attempt}: {end.state}")
    if job.state == READY and job.ready_at is not None:
        yield Moment(job.ready_at, "ready")
    if job.state == SCHEDULED and job.run_at is not None:
        yield Moment(job.run_at, "due")
    if job.finished_at is not None:
        yield Moment(job.finished_at, job.state)


def _untold(begun: list[tuple[int, datetime]]) -> Iterator[Moment]:
    """Attempts of which only the number is left: those that slept, waited or were put off."""
    last = 0
    for attempt, began in begun:
        if attempt == last + 2:
            yield Moment(began, f"attempt {last + 1} had ended without an error")
        elif attempt > last + 2:
            yield Moment(began, f"attempts {last + 1} to {attempt - 1} had ended without an error")
        last = attempt


def _begun(job: Job) -> set[tuple[int, datetime]]:
    """When attempts began: the last one as the row has it, those before as their ends do."""
    begun = {(error.attempt, error.began) for error in job.errors}
    begun |= {(end.attempt, end.began) for end in job.earlier_ends}
    begun.add((job.attempt, job.attempted_at))
    return {(attempt, began) for attempt, began in begun if began is not None}
