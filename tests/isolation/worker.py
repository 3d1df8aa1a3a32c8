"""Workers with child processes, and what can be seen of those."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock import Penstock, Worker
from penstock.connect.enqueue import Enqueued
from tests.fixtures import worker
from tests.fixtures.until import until
from tests.fixtures.worker import GROUPS, TIMES, UPKEEP, children_state, timed

# Jobs that wait for a child are not past their timeout.
SETTINGS = {**GROUPS, "upkeep": replace(UPKEEP, overtime_grace=60)}


def isolating(app: Penstock, *, children: int = 2, slots: int = 20, **settings: Any) -> Worker:
    """A worker with short intervals and so many children; `settings` are groups, or of `Timing`."""
    timing = {key: settings.pop(key) for key in tuple(settings) if key in TIMES}
    worker = app.worker({"default": slots}, children=children, **{**SETTINGS, **settings})
    return timed(worker, **timing)


def supervisor_of(worker: Worker) -> int:
    """The process id of a worker's supervisor."""
    supervisor = children_state(worker).supervisor
    assert supervisor is not None
    return supervisor


def is_alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """The processes that have this one as their parent."""
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in told.split()]


def open_files(pid: int | str = "self") -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def signed(path: Path) -> int:
    """Wait for a process id that a job leaves."""
    return int(await until(lambda: _read(path), 30, what=f"a job to sign at {path.name}"))


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def gone(*pids: int) -> None:
    """Wait until none of these processes is left."""
    await until(lambda: not any(map(is_alive, pids)), what=f"the end of {pids}")


async def reaches(app: Penstock, job: str | Enqueued[Any], *states: str) -> Any:
    """Wait until a job is in one of some states; processes may take their time to start."""
    return await worker.reaches(app, job, *states, timeout=30)
