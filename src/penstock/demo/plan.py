"""How many jobs of each kind the demo has, and how each must end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.demo import tasks
from penstock.job import State
from penstock.tasks import Request

JOBS = 4012
FEWEST = 50
CRASH_AFTER = 5.0
QUEUES = {"images": 2, "files": 2, "audio": 4, "web": 4, "crash": 1}
HOPELESS = 99


@dataclass(frozen=True, slots=True)
class Planned:
    """One job to enqueue, and the state that it must end in."""

    request: Request[Any]
    ends_as: State = "completed"


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers, all from one: how many jobs there shall be."""

    jobs: int = JOBS

    @property
    def is_small(self) -> bool:
        """Over so soon that nobody would wait for the longest of its jobs."""
        return self.jobs < JOBS

    @property
    def crash_after(self) -> float:
        """Late enough to be in the thick of it, whatever the number of jobs."""
        return 1.0 if self.is_small else CRASH_AFTER

    @property
    def lease(self) -> float:
        return 1.5 if self.is_small else 3.0

    @property
    def recording(self) -> float:
        """How long the shortest recording takes; those of a killed worker run one by one."""
        return 0.1 if self.is_small else 0.5

    @property
    def export_pause(self) -> float:
        """How long an export is left alone at least, before it is looked at again."""
        return 0.2 if self.is_small else 1.0

    @property
    def hopeless_attempts(self) -> int:
        return 2 if self.is_small else 4

    def __iter__(self) -> Iterator[Planned]:
        crash = tasks.crash.options(delay=self.crash_after)
        yield Planned(crash.prepare())
        checksums, recordings, pages = self.jobs * 15 // 100, self.jobs // 20, self.jobs // 25
        exports, hopeless = self.jobs // 100, max(self.jobs // 400, 1)
        for number in range(checksums):
            yield Planned(tasks.checksum.prepare(number))
        for number in range(recordings):
            yield Planned(tasks.transcribe.prepare(number, seconds=self.recording))
        for number in range(pages):
            yield Planned(tasks.fetch_page.prepare(number, refusals=number % 3))
        for number in range(hopeless):
            fetch = tasks.fetch_page.options(max_attempts=self.hopeless_attempts)
            yield Planned(fetch.prepare(pages + number, refusals=HOPELESS), "failed")
        for number in range(exports):
            yield Planned(tasks.await_export.prepare(number, pause=self.export_pause))
        others = 1 + checksums + recordings + pages + hopeless + exports
        for number in range(self.jobs - others):
            yield Planned(tasks.thumbnail.prepare(number))
