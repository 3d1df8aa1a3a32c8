"""Record what happens in the demo, and sum up from the database how its jobs ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.connect.enqueue import JobStatus
from penstock.demo.stage import WORKERS, DemoFolder
from penstock.job import FINAL, Job, State
from penstock.telemetry import Event
from penstock.worker.processes import ProcessEnded, ProcessStarted

BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw the last `width` values as one line of blocks."""
    shown = list(values)[-width:]
    top = max(shown, default=0.0) or 1.0
    return "".join(BLOCKS[_eighths(value, top, 8)] for value in shown)


def plot(values: Sequence[float], seconds: float, marks: Mapping[float, str], height: int) -> str:
    """Draw columns over time, with a scale at the left. `marks` maps seconds to signs below."""
    top = max(values, default=0.0) or 1.0
    rows = []
    for row in range(height, 0, -1):
        scale = f"{top:>7,.0f}/s" if row == height else " " * 9
        rows.append(f"{scale} │{''.join(_cell(value, top, row, height) for value in values)}")
    rows.append(f"{'0':>9} └{'─' * len(values)}")
    signs = [" "] * len(values)
    for at, sign in marks.items():
        signs[min(int(at / seconds), len(signs) - 1)] = sign
    rows.append(f"{'':>11}{''.join(signs)}".rstrip())
    end = f"{len(values) * seconds:.0f} s"
    rows.append(f"{'':>11}0 s{end:>{max(len(values) - 3, 4)}}")
    return "\n".join(rows)


def _cell(value: float, top: float, row: int, height: int) -> str:
    filled = _eighths(value, top, height * 8) - (row - 1) * 8
    return BLOCKS[max(0, min(8, filled))]


def _eighths(value: float, top: float, full: int) -> int:
    """Return how many eighths of a block to fill: at least one for any value above zero."""
    return max(1, round(value / top * full)) if value > 0 else 0


@dataclass(slots=True)
class Span:
    """The start and end of a worker process, in seconds since the jobs were enqueued."""

    number: int
    pid: int
    began: float
    ended: float | None = None
    killed: bool = False


@dataclass(slots=True)
class Story:
    """Records what has happened in the demo. Times are seconds since the jobs were enqueued."""

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
        """Count the jobs of each task by state."""
        counts: dict[str, Counter[State]] = {task: Counter() for task in self.tasks.values()}
        for job, task in self.tasks.items():
            counts[task][self.states.get(job, "ready")] += 1
        return counts

    def rates(self, seconds: float = 0.5) -> list[float]:
        """Return how many jobs ended per second, for each slice of the time so far."""
        slices = [0.0] * (int(self.now / seconds) + 1)
        for at, count in self.finished:
            slices[min(int(at / seconds), len(slices) - 1)] += count / seconds
        return slices

    def record_states(self, statuses: Iterable[JobStatus]) -> None:
        """Record the states that jobs are in now."""
        before = self.ended
        self.states.update({status.id: status.state for status in statuses})
        if self.ended > before:
            self.finished.append((self.now, self.ended - before))

    def add_line(self, text: str, at: float | None = None) -> None:
        self.lines.append((self.now if at is None else at, text))

    def record_event(self, event: Event) -> None:
        """Record that a worker process started or ended."""
        match event:
            case ProcessStarted(number, pid):
                is_restart = any(span.number == number for span in self.spans)
                self.spans.append(Span(number, pid, self.now))
                verb = "is back" if is_restart else "has started"
                self.add_line(f"worker {number} {verb}, process {pid}")
            case ProcessEnded(number, pid, cause, again_in):
                self._end_span(pid, killed=again_in is not None)
                if again_in is not None:
                    self.killed_at = self.killed_at or self.now
                    self.add_line(f"worker {number} {cause}; a new one starts in {again_in:.1f} s")

    def _end_span(self, pid: int, *, killed: bool) -> None:
        for span in self.spans:
            if span.pid == pid:
                span.ended, span.killed = self.now, killed

    def record_rescue(self, job: Job, at: float) -> None:
        """Record when the job that killed its worker was taken from that worker."""
        self.rescued_at = at
        after = at - (self.killed_at or at)
        self.add_line(f"job {job.id}, which killed its worker, was rescued after {after:.1f} s", at)

    def finish_times(self, jobs: Sequence[Job]) -> dict[str, list[float]]:
        """Return when the jobs of each task ended, according to the database."""
        times: dict[str, list[float]] = {}
        for job in jobs:
            if job.finished_at is not None:
                times.setdefault(job.task, []).append(job.finished_at.timestamp() - self.began)
        return times


WIDTH = 76
HEIGHT = 8


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """The states in which the jobs ended, and the states that were expected."""

    story: Story
    jobs: Sequence[Job]
    expected: Mapping[str, str]
    folder: DemoFolder

    @property
    def lost(self) -> int:
        """The number of jobs that are missing or have not ended."""
        return len(self.expected) - sum(job.is_final for job in self.jobs)

    @property
    def unexpected(self) -> int:
        """The number of jobs that ended in another state than expected."""
        return sum(job.is_final and job.state != self.expected[job.id] for job in self.jobs)

    @property
    def is_as_expected(self) -> bool:
        return not self.lost and not self.unexpected and self.story.rescued_at is not None

    @property
    def rescued(self) -> int:
        return sum(_lost_attempts(job) > 0 for job in self.jobs)

    @property
    def rescued_after(self) -> float:
        """Seconds from the kill to the rescue."""
        killed, rescued = self.story.killed_at, self.story.rescued_at
        return rescued - killed if killed is not None and rescued is not None else 0.0

    @property
    def retries(self) -> int:
        """The number of failed attempts that were followed by another attempt."""
        return sum(job.failures - (job.state == "failed") for job in self.jobs)

    @property
    def put_back(self) -> int:
        """The number of attempts that were snoozed, or released before they began."""
        return sum(
            max(job.attempt - job.failures - _lost_attempts(job) - (job.state == "completed"), 0)
            for job in self.jobs
        )

    @property
    def seconds(self) -> float:
        """Seconds from the enqueue to the end of the last job."""
        times = self.story.finish_times(self.jobs).values()
        return max((max(ends) for ends in times), default=0.0)

    def rates(self, seconds: float) -> list[float]:
        """Return how many jobs ended per second, for each slice of time."""
        slices = [0.0] * (int(self.seconds / seconds) + 1)
        for times in self.story.finish_times(self.jobs).values():
            for at in times:
                slices[max(int(at / seconds), 0)] += 1 / seconds
        return slices

    def as_dict(self) -> dict[str, Any]:
        return {
            "enqueued": len(self.expected),
            "ended": len(self.expected) - self.lost,
            "lost": self.lost,
            "ended_otherwise": self.unexpected,
            "completed": sum(job.state == "completed" for job in self.jobs),
            "failed": sum(job.state == "failed" for job in self.jobs),
            "retries": self.retries,
            "put_back": self.put_back,
            "workers": WORKERS,
            "rescued": self.rescued,
            "rescued_after_seconds": round(self.rescued_after, 2),
            "seconds": round(self.seconds, 2),
            "as_expected": self.is_as_expected,
            "picture": str(self.folder.picture),
        }

    def __str__(self) -> str:
        slice_s = max(self.seconds / WIDTH, 0.1)
        story = self.story
        marks = {at: sign for at, sign in ((story.killed_at, "✗"), (story.rescued_at, "↺")) if at}
        counts = self.as_dict()
        return "\n".join(
            [
                plot(self.rates(slice_s), slice_s, marks, HEIGHT),
                "",
                f"{counts['enqueued']:,} jobs enqueued, {counts['ended']:,} ended, "
                f"{counts['lost']} lost.",
                f"{counts['completed']:,} completed and {counts['failed']} failed, "
                + self._verdict(),
                f"{counts['retries']} retries, {counts['put_back']} times snoozed or given back, "
                f"{self.seconds:.1f} s with {WORKERS} worker processes.",
                f"One worker was killed (✗); its {self.rescued} jobs were rescued "
                f"after {self.rescued_after:.1f} s (↺).",
                "",
                f"The picture is {self.folder.picture}, the workers' log {self.folder.log}.",
                f"Look at the jobs: penstock stats --data-dir {self.folder.database}",
            ]
        )

    def _verdict(self) -> str:
        if self.is_as_expected:
            return "each as it should."
        if self.unexpected:
            return f"{self.unexpected} of them NOT AS EXPECTED."
        return "NOT AS EXPECTED: see the workers' log."


def _lost_attempts(job: Job) -> int:
    """Count the attempts that were taken from a lost worker, even if `job.losses` omits them."""
    return sum(error.kind == "lost" for error in job.errors)
