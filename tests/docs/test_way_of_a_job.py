"""The list of files in `how-it-works.md` is the way that a job really takes."""

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import penstock
from penstock import Penstock
from penstock.connect import wake
from penstock.lifecycle import Service
from penstock.worker.claim.claimer import Claimer
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import listening, nothing_to_claim, worker_of, worker_state

PACKAGE = Path(penstock.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "how-it-works.md"
# Connections, health, errors and in-process events serve every step, at any moment.
EVERYWHERE = {"lifecycle.py", "telemetry.py", "store/connection.py", "store/errors.py"}
# They call the event loop from their own thread, at any moment.
HEARTBEAT = {"worker/heartbeat.py", "worker/lease.py"}
# So long that nothing but the job happens meanwhile.
QUIET: dict[str, Any] = {
    **dict.fromkeys(("rescan", "poll", "reconcile", "rescue", "overtime", "expire"), 3600.0),
    **dict.fromkeys(("sweep", "promote_most", "term"), 3600.0),
    "election": 1800.0,
    "heartbeat": 20.0,
}


class Way:
    """The files of Penstock that this thread enters, in the order of their first call.

    `comes_back_to` has those in which a later file calls a function that had been passed over.
    """

    def __init__(self) -> None:
        self.files: list[str] = []
        self.comes_back_to: set[str] = set()
        self._functions: set[tuple[str, str]] = set()

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (file := file_of(frame)) is None:
            return
        function = frame.f_code.co_qualname
        # Python 3.12 has no frames of their own for comprehensions.
        if "<" in function.rpartition(".")[2] or (file, function) in self._functions:
            return
        if is_beside(frame):
            return
        self._functions.add((file, function))
        if file not in self.files:
            self.files.append(file)
        elif (caller := frame.f_back) and file_of(caller) not in (None, file):
            self.comes_back_to.add(file)


def file_of(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    file = path.relative_to(PACKAGE).as_posix()
    return None if file in EVERYWHERE else file


def is_beside(frame: FrameType | None) -> bool:
    """Return whether the heartbeat or a service other than the claimer made this call."""
    first = None
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            first = path.relative_to(PACKAGE).as_posix()
            service = frame.f_locals.get("self")
            if isinstance(service, Service) and frame.f_code.co_name == "_run":
                return not isinstance(service, Claimer)
        frame = frame.f_back
    return first in HEARTBEAT


@contextmanager
def followed() -> Iterator[Way]:
    way, before = Way(), sys.getprofile()
    sys.setprofile(way.profile)
    try:
        yield way
    finally:
        sys.setprofile(before)


@pytest.fixture
async def way(database: Database) -> Way:
    """What one job passes, in a worker that has run another one and waits."""
    app = Penstock(database.url)

    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello {name}"

    async with app, worker_of(app, **QUIET) as worker:
        await listening(worker)
        await app.wait(await app.enqueue(greet, "Ada"))
        await nothing_to_claim(worker)
        await until(lambda: not worker_state(worker).jobs, what="the first job to be settled")
        # From then on an enqueue carries its own notification again.
        await asyncio.sleep(10 * wake.NOTIFY_INTERVAL_S)
        with followed() as way:
            await app.enqueue(greet, "Grace")
            await until(lambda: "worker/settle/report.py" in way.files, what="the settle")
        return way


def test_the_page_lists_the_files_that_a_job_passes(way: Way) -> None:
    _, _, rest = PAGE.read_text("utf-8").partition("The files that a plain job passes")
    section = rest.partition("\n## ")[0]
    listed = re.findall(r"\]\(\.\./src/penstock/([\w/]+\.py)\)", section)
    assert listed == way.files


def test_the_page_says_to_how_many_a_job_comes_back(way: Way) -> None:
    [number] = re.findall(r"comes\s+back\s+to\s+(\d+)\s+of", PAGE.read_text("utf-8"))
    assert int(number) == len(way.comes_back_to), sorted(way.comes_back_to)
