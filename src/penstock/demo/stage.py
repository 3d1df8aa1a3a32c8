"""What the demo consists of: its jobs, a folder with a Postgres, and worker processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import migrate
from penstock.app.app import Penstock
from penstock.demo import tasks
from penstock.embedded import Server
from penstock.job import State
from penstock.tasks import Request
from penstock.telemetry import Event
from penstock.worker.processes import ProcessGroup

DEFAULT_JOBS = 4012
CRASH_DELAY_S = 5.0
QUEUES = {"images": 2, "files": 2, "audio": 4, "web": 4, "crash": 1}
# More refusals than the job has attempts.
HOPELESS_REFUSALS = 99


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job to enqueue, and the state in which it must end."""

    request: Request[Any]
    ends_as: State = "completed"


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The jobs of a demo and their durations, all derived from the number of jobs."""

    jobs: int = DEFAULT_JOBS

    @property
    def is_small(self) -> bool:
        """Whether the demo has fewer jobs than usual, and therefore shorter ones."""
        return self.jobs < DEFAULT_JOBS

    @property
    def crash_after(self) -> float:
        """The delay in seconds of the job that kills its worker. Other jobs are running by then."""
        return 1.0 if self.is_small else CRASH_DELAY_S

    @property
    def lease(self) -> float:
        return 1.5 if self.is_small else 3.0

    @property
    def recording(self) -> float:
        """The minimum duration of a recording's job in seconds.

        After a crash, the recordings of the killed worker run one by one.
        """
        return 0.1 if self.is_small else 0.5

    @property
    def export_pause(self) -> float:
        """The minimum number of seconds until an export is checked again."""
        return 0.2 if self.is_small else 1.0

    @property
    def hopeless_attempts(self) -> int:
        return 2 if self.is_small else 4

    def __iter__(self) -> Iterator[PlannedJob]:
        crash = tasks.crash.options(delay=self.crash_after)
        yield PlannedJob(crash.prepare())
        checksums, recordings, pages = self.jobs * 15 // 100, self.jobs // 20, self.jobs // 25
        exports, hopeless = self.jobs // 100, max(self.jobs // 400, 1)
        for number in range(checksums):
            yield PlannedJob(tasks.checksum.prepare(number))
        for number in range(recordings):
            yield PlannedJob(tasks.transcribe.prepare(number, seconds=self.recording))
        for number in range(pages):
            yield PlannedJob(tasks.fetch_page.prepare(number, refusals=number % 3))
        for number in range(hopeless):
            fetch = tasks.fetch_page.options(max_attempts=self.hopeless_attempts)
            yield PlannedJob(fetch.prepare(pages + number, refusals=HOPELESS_REFUSALS), "failed")
        for number in range(exports):
            yield PlannedJob(tasks.await_export.prepare(number, pause=self.export_pause))
        others = 1 + checksums + recordings + pages + hopeless + exports
        for number in range(self.jobs - others):
            yield PlannedJob(tasks.thumbnail.prepare(number))


WORKERS = 3


class DemoFolder:
    """The folder with the database, log and picture that a demo leaves for its user."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "postgres"
        self.log = path / "workers.log"
        self.picture = path / "throughput.svg"

    def prepare(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / ".gitignore").write_text("*\n")


@asynccontextmanager
async def open_app(app: Penstock, folder: DemoFolder) -> AsyncIterator[None]:
    """Remove the tables of an earlier demo, and open the app on an empty queue."""
    hold = await asyncio.to_thread(Server(folder.database).acquire)
    try:
        await migrate.migrate(hold.url, to=0)
        app.use_database(data_dir=folder.database, schema="penstock")
        async with app:
            yield
    finally:
        await asyncio.to_thread(hold.release)


@asynccontextmanager
async def start_workers(
    url: str, folder: DemoFolder, lease: float, on_event: Callable[[Event], None]
) -> AsyncIterator[ProcessGroup]:
    """Start worker processes as `penstock work` does, and stop them at the end of the block."""
    with folder.log.open("wb") as log:
        group = ProcessGroup(_command(url, lease), WORKERS, on_event=on_event, output=log)
        running = asyncio.create_task(group.run(), name="penstock demo workers")
        try:
            yield group
        finally:
            group.ask_to_stop()
            await running


def _command(url: str, lease: float) -> list[str]:
    queues = [text for name, slots in QUEUES.items() for text in ("--queue", f"{name}:{slots}")]
    return [
        *(sys.executable, "-m", "penstock.cli", "work", "penstock.demo.tasks:app", *queues),
        *("--database-url", url, "--schema", "penstock", "--lease", f"{lease}s"),
        *("--stop-wait", "5s", "--log-format", "json", "--under-parent"),
    ]
