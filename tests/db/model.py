"""The queue as a few lines of Python: what the SQL must agree with, job by job."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

FINAL = ("completed", "failed", "cancelled")


class Outcome(StrEnum):
    """What an attempt comes to."""

    DONE = "done"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"
    CANCEL = "cancel"
    DISCARD = "discard"


@dataclass(slots=True)
class ModelJob:
    """What is observed of a job."""

    max_attempts: int
    max_losses: int
    run_at: datetime
    state: str
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    suspect: bool = False
    begun_token: UUID | None = None
    lease: int | None = None
    token: UUID | None = None
    last_token: UUID | None = None

    def observed(self) -> tuple[object, ...]:
        return (
            self.state,
            self.attempt,
            self.failures,
            self.losses,
            self.lease,
            self.token,
            self.last_token,
        )

    @property
    def has_begun(self) -> bool:
        """Whether the attempt that runs was marked as begun."""
        return self.token is not None and self.token == self.begun_token

    def leave(self, state: str) -> None:
        """The attempt is over."""
        self.state, self.lease, self.token = state, None, None
        if state in FINAL:
            self.suspect, self.begun_token = False, None


@dataclass(slots=True)
class Settlement:
    """What a worker asks for when an attempt came to an outcome."""

    state: str
    reason: str | None = None
    delay: float = 0.0
    failure: int = 0

    @classmethod
    def of(cls, outcome: Outcome, failures: int, max_attempts: int) -> "Settlement":
        match outcome:
            case Outcome.DONE:
                return cls("completed")
            case Outcome.RETRY if failures + 1 >= max_attempts:
                return cls("failed", "exhausted", failure=1)
            case Outcome.RETRY:
                return cls("scheduled", delay=30.0, failure=1)
            case Outcome.SNOOZE:
                return cls("scheduled", delay=30.0)
            case Outcome.RELEASE:
                return cls("ready")
            case Outcome.CANCEL:
                return cls("cancelled", "handler")
            case Outcome.DISCARD:
                return cls("failed", "discarded", failure=1)


@dataclass(slots=True)
class Model:
    """The queue. Time is what it is told."""

    now: datetime
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    leases: dict[int, datetime] = field(default_factory=dict)
    issued: set[UUID] = field(default_factory=set)

    def lives(self, lease: int) -> bool:
        return lease in self.leases and self.leases[lease] > self.now

    def in_state(self, state: str) -> list[int]:
        return [id for id, job in self.jobs.items() if job.state == state]

    def enqueue(self, id: int, max_attempts: int, max_losses: int, delay: float) -> None:
        run_at = self.now + timedelta(seconds=delay)
        state = "scheduled" if delay else "ready"
        self.jobs[id] = ModelJob(max_attempts, max_losses, run_at, state)

    def claim(self, lease: int, id: int, token: UUID) -> None:
        job = self.jobs[id]
        assert job.state == "ready", f"job {id} was claimed while it was {job.state}"
        assert token not in self.issued, f"the token of job {id} is not new"
        self.issued.add(token)
        job.state, job.lease, job.token = "running", lease, token
        job.attempt += 1

    def settle(self, id: int, token: UUID | None, asked: Settlement) -> str:
        """settled, or the answer."""
        job = self.jobs[id]
        if token is None:
            return "cancelled" if job.state == "cancelled" else "refused"
        if token == job.token:
            job.leave(asked.state)
            job.last_token = token
            job.failures += asked.failure
            job.run_at = self.now + timedelta(seconds=asked.delay)
            return "settled"
        if token == job.last_token:
            return "settled"
        return "cancelled" if job.state == "cancelled" else "refused"

    def rescue(self) -> dict[int, bool]:
        lost = {}
        for id in self.in_state("running"):
            job = self.jobs[id]
            if job.lease is not None and not self.lives(job.lease):
                job.losses += job.has_begun
                lost[id] = job.has_begun and job.losses >= job.max_losses
                job.suspect = True
                job.leave("failed" if lost[id] else "ready")
        return lost

    def mark_started(self, attempts: Collection[tuple[int, UUID]]) -> set[UUID]:
        mine = [(id, token) for id, token in attempts if self.jobs[id].token == token]
        for id, token in mine:
            self.jobs[id].begun_token = token
        return {token for _, token in mine}

    def promote(self) -> int:
        due = [id for id in self.in_state("scheduled") if self.jobs[id].run_at <= self.now]
        for id in due:
            self.jobs[id].state = "ready"
        return len(due)

    def cancel(self, id: int) -> str:
        job = self.jobs[id]
        if job.state in FINAL:
            return job.state
        job.leave("cancelled")
        return "cancelled"

    def retry(self, id: int) -> str:
        job = self.jobs[id]
        if job.state in FINAL:
            job.failures = job.losses = 0
        if job.state != "running":
            job.state = "ready"
        return job.state

    def release(self, lease: int, keep: Collection[int] = ()) -> int:
        mine = [id for id in self.in_state("running") if self.jobs[id].lease == lease]
        given_back = [id for id in mine if id not in keep]
        for id in given_back:
            self.jobs[id].leave("ready")
        return len(given_back)

    def close_lease(self, lease: int) -> int:
        self.leases.pop(lease, None)
        return self.release(lease)
