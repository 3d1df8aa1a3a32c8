"""What the demo came to, counted from the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.demo.chart import plot
from penstock.demo.stage import WORKERS, Folder
from penstock.demo.story import Story
from penstock.job import Job

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
