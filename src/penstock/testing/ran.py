"""What one attempt came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.job import Job, State
from penstock.outcome import Done, Transition, outcome_of

T = TypeVar("T")


class Told(NamedTuple):
    """One report of `ctx.progress`."""

    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True)
class Ran(Generic[T]):
    """An attempt that is over, and what becomes of its job.

    ran = await attempt(charge, 42)
    assert (ran.state, ran.delay) == ("scheduled", 30)
    """

    job: Job
    transition: Transition
    value: Any = None
    error: BaseException | None = None
    progress: tuple[Told, ...] = ()

    @property
    def state(self) -> State:
        """Where the job is now: completed, failed, cancelled, or scheduled to run again."""
        return self.transition.state

    @property
    def reason(self) -> str | None:
        """Why it is there: exhausted, discarded, what the handler said."""
        return self.transition.reason

    @property
    def delay(self) -> float:
        """In how many seconds it runs again, if it does."""
        return self.transition.delay

    @property
    def counts_failure(self) -> bool:
        """Whether the attempt counts against max_attempts: a snooze does not."""
        return self.transition.counts_failure

    @property
    def result(self) -> T:
        """What the handler returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        outcome = outcome_of(self.value)
        assert isinstance(outcome, Done), f"{self.job.task} has no result: it came to {outcome!r}."
        result: T = outcome.result
        return result
