"""What happened when: the demo as it is told on the screen and drawn in the picture."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.client import JobStatus
from penstock.events import Event
from penstock.job import FINAL, Job, State
from penstock.worker.fleet import ProcessEnded, ProcessStarted


@dataclass(slots=True)
class Span:
    """A worker process from its start to its end, in seconds of the demo."""

    number: int
    pid: int
    began: float
    ended: float | None = None
    killed: bool = False


@dataclass(slots=True)
class Story:
    """Times are seconds since the jobs were enqueued."""

    tasks: dict[str, str]
    began: float = field(default_factory=time.time)
    states: dict[str, State] = field(default_factory=dict)
    finished: list[tuple[float, int]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    lines: list[tuple[float, str]] = field(default_factory=list)
    killed_at: float | None = None
    rescued_at: float | None = None

    @property
    def now(self) -> float:
        return time.time() - self.began

    @property
    def pending(self) -> list[str]:
        """The jobs that have not ended yet."""
        return [job for job in self.tasks if self.states.get(job) not in FINAL]

    @property
    def ended(self) -> int:
        return sum(state in FINAL for state in self.states.values())

    @property
    def alive(self) -> list[Span]:
        return [span for span in self.spans if span.ended is None]

    def counts(self) -> dict[str, Counter[State]]:
        """For each task, how many of its jobs are in which state."""
        counted: dict[str, Counter[State]] = {task: Counter() for task in self.tasks.values()}
        for job, task in self.tasks.items():
            counted[task][self.states.get(job, "ready")] += 1
        return counted

    def rates(self, seconds: float = 0.5) -> list[float]:
        """Jobs that ended per second, in slices of the time so far."""
        slices = [0.0] * (int(self.now / seconds) + 1)
        for at, count in self.finished:
            slices[min(int(at / seconds), len(slices) - 1)] += count / seconds
        return slices

    def saw(self, statuses: Iterable[JobStatus]) -> None:
        """Take note of the states that jobs are in now."""
        before = self.ended
        self.states.update({status.id: status.state for status in statuses})
        if self.ended > before:
            self.finished.append((self.now, self.ended - before))

    def say(self, text: str, at: float | None = None) -> None:
        self.lines.append((self.now if at is None else at, text))

    def process(self, event: Event) -> None:
        """Take note of a worker process that started or ended."""
        match event:
            case ProcessStarted(number, pid):
                again = any(span.number == number for span in self.spans)
                self.spans.append(Span(number, pid, self.now))
                self.say(f"worker {number} {'is back' if again else 'has started'}, process {pid}")
            case ProcessEnded(number, pid, cause, again_in):
                self._close(pid, killed=again_in is not None)
                if again_in is not None:
                    self.killed_at = self.killed_at or self.now
                    self.say(f"worker {number} {cause}; a new one starts in {again_in:.1f} s")

    def _close(self, pid: int, *, killed: bool) -> None:
        for span in self.spans:
            if span.pid == pid:
                span.ended, span.killed = self.now, killed

    def rescue(self, job: Job, at: float) -> None:
        """Take note that the job which killed its worker has been taken back."""
        self.rescued_at = at
        after = at - (self.killed_at or at)
        self.say(f"job {job.id}, which killed its worker, was rescued after {after:.1f} s", at)

    def finish_times(self, jobs: Sequence[Job]) -> dict[str, list[float]]:
        """For each task, when its jobs ended, as the database has it."""
        times: dict[str, list[float]] = {}
        for job in jobs:
            if job.finished_at is not None:
                times.setdefault(job.task, []).append(job.finished_at.timestamp() - self.began)
        return times
