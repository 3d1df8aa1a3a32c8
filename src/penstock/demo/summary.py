"""What happened in the demo, and what it came to, counted from the database."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.connect.enqueue import JobStatus
from penstock.demo.stage import WORKERS, Folder
from penstock.job import FINAL, Job, State
from penstock.telemetry import Event
from penstock.worker.processes import ProcessEnded, ProcessStarted

BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as one line of blocks."""
    shown = list(values)[-width:]
    top = max(shown, default=0.0) or 1.0
    return "".join(BLOCKS[_eighths(value, top, 8)] for value in shown)


def plot(values: Sequence[float], seconds: float, marks: Mapping[float, str], height: int) -> str:
    """Columns over time with a scale at the left; a mark is a sign under its second."""
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
    """How much of a column is filled; the least job shows."""
    return max(1, round(value / top * full)) if value > 0 else 0


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


WIDTH = 76
HEIGHT = 8


@dataclass(frozen=True, slots=True)
class Ended:
    """The jobs as they ended, beside how they should have."""

    story: Story
    jobs: Sequence[Job]
    expected: Mapping[str, str]
    folder: Folder

    @property
    def lost(self) -> int:
        """Jobs that are gone or have not ended."""
        return len(self.expected) - sum(job.is_final for job in self.jobs)

    @property
    def otherwise(self) -> int:
        """Jobs that ended, but not as they should have."""
        return sum(job.is_final and job.state != self.expected[job.id] for job in self.jobs)

    @property
    def is_as_expected(self) -> bool:
        return not self.lost and not self.otherwise and self.story.rescued_at is not None

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
        """Failed attempts that were followed by another."""
        return sum(job.failures - (job.state == "failed") for job in self.jobs)

    @property
    def put_back(self) -> int:
        """Attempts that counted as nothing: snoozed, or given back before they began."""
        return sum(
            max(job.attempt - job.failures - _lost_attempts(job) - (job.state == "completed"), 0)
            for job in self.jobs
        )

    @property
    def seconds(self) -> float:
        """From the enqueue to the last end."""
        times = self.story.finish_times(self.jobs).values()
        return max((max(each) for each in times), default=0.0)

    def rates(self, seconds: float) -> list[float]:
        """Ends per second in slices of time."""
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
            "ended_otherwise": self.otherwise,
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
        slice_ = max(self.seconds / WIDTH, 0.1)
        story = self.story
        marks = {at: sign for at, sign in ((story.killed_at, "✗"), (story.rescued_at, "↺")) if at}
        found = self.as_dict()
        return "\n".join(
            [
                plot(self.rates(slice_), slice_, marks, HEIGHT),
                "",
                f"{found['enqueued']:,} jobs enqueued, {found['ended']:,} ended, "
                f"{found['lost']} lost.",
                f"{found['completed']:,} completed and {found['failed']} failed, "
                + self._verdict(),
                f"{found['retries']} retries, {found['put_back']} times snoozed or given back, "
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
        if self.otherwise:
            return f"{self.otherwise} of them NOT AS EXPECTED."
        return "NOT AS EXPECTED: see the workers' log."


def _lost_attempts(job: Job) -> int:
    """How many attempts were taken from a lost worker, whether or not they counted as losses."""
    return sum(error.kind == "lost" for error in job.errors)
