"""Where the demo takes place and what it runs: a folder with a Postgres, workers, and its jobs."""

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


FOLDER = ".penstock-demo"
WORKERS = 3


class Folder:
    """What a demo leaves behind, to be looked at afterwards."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "postgres"
        self.log = path / "workers.log"
        self.picture = path / "throughput.svg"

    def prepare(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / ".gitignore").write_text("*\n")


@asynccontextmanager
async def opened(app: Penstock, folder: Folder) -> AsyncIterator[None]:
    """The app on an empty queue: what an earlier demo left is removed."""
    hold = await asyncio.to_thread(Server(folder.database).acquire)
    try:
        await migrate.migrate(hold.url, to=0)
        app.use_database(data_dir=folder.database, schema="penstock")
        async with app:
            yield
    finally:
        await asyncio.to_thread(hold.release)


@asynccontextmanager
async def crew(
    url: str, folder: Folder, lease: float, told: Callable[[Event], None]
) -> AsyncIterator[ProcessGroup]:
    """Worker processes, as `penstock work` starts them; they stop at the end."""
    with folder.log.open("wb") as log:
        fleet = ProcessGroup(_command(url, lease), WORKERS, told=told, output=log)
        running = asyncio.create_task(fleet.run(), name="penstock demo workers")
        try:
            yield fleet
        finally:
            fleet.ask_to_stop()
            await running


def _command(url: str, lease: float) -> list[str]:
    queues = [text for name, slots in QUEUES.items() for text in ("--queue", f"{name}:{slots}")]
    return [
        *(sys.executable, "-m", "penstock.cli", "work", "penstock.demo.tasks:app", *queues),
        *("--database-url", url, "--schema", "penstock", "--lease", f"{lease}s"),
        *("--stop-wait", "5s", "--log-format", "json", "--under-parent"),
    ]
