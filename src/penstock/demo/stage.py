"""Where the demo takes place: a folder with a Postgres, and worker processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from penstock import migrate
from penstock.app import Penstock
from penstock.demo.plan import QUEUES
from penstock.embedded import Server
from penstock.events import Event
from penstock.worker.fleet import Fleet

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
) -> AsyncIterator[Fleet]:
    """Worker processes, as `penstock work` starts them; they stop at the end."""
    with folder.log.open("wb") as log:
        fleet = Fleet(_command(url, lease), WORKERS, told=told, output=log)
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
