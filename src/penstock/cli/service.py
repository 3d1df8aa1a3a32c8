"""What `penstock work` does once it knows what is wanted."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.app.app import Penstock
from penstock.cli import supervisor
from penstock.cli.exposing import exposed
from penstock.cli.opening import opened
from penstock.cli.serving import queues_of
from penstock.cli.stopping import Stop
from penstock.cli.target import find_app
from penstock.cli.where import Where
from penstock.config import JobLog, Liveness, Stopping, Upkeep
from penstock.connect.connector import announced_elsewhere
from penstock.telemetry import DatabaseGone, Event, LeaseTaken
from penstock.worker import Tally, Worker
from penstock.worker.processes import STARTED, WAITING, ProcessGroup, ProcessReady, log_event

logger = logging.getLogger("penstock.work")

# After a third signal each process of several ends by itself, before it is killed.
PROCESSES_LAST_WAIT = 10.0


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says, apart from what is to be done with it."""

    target: str
    queues: tuple[str, ...]
    tenants: tuple[str, ...]
    except_tenants: tuple[str, ...]
    children: int | None
    where: Where
    lease: float
    heartbeat: float
    stop_wait: float
    metrics: str | None
    log_jobs: bool
    dev: bool
    under_parent: bool
    is_announced: bool


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain came to: attempts by their outcome, and how long it took."""

    tally: Tally
    seconds: float

    def as_document(self) -> dict[str, int | float]:
        counts = {"settled": self.tally.settled, **self.tally.as_dict()}
        return {**counts, "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        counts = [f"{count:,} {word}" for word, count in self.tally.as_dict().items() if count]
        if not counts:
            return "There was nothing to do."
        return f"{', '.join(counts)} in {self.seconds:.1f} s."


async def serve(given: Given) -> None:
    """Work until a signal says stop."""
    app, worker, stop = _prepared(given)
    with stop.breaks_off_start() as started, exposed(app, given.metrics):
        async with opened(app, waits_for_room=True):
            started()
            await worker.run(lambda: supervisor.tell("READY=1"))


async def drain(given: Given, limit: int | None, longest: float | None) -> Drained:
    """Work off what there is."""
    app, worker, stop = _prepared(given)
    began = time.monotonic()
    with stop.breaks_off_start() as started, exposed(app, given.metrics):
        async with opened(app, waits_for_room=True):
            started()
            began = time.monotonic()
            await worker.drain(limit=limit, seconds=longest)
    return Drained(worker.tally, time.monotonic() - began)


async def keep_fleet(command: Sequence[str], processes: int, stop_wait: float) -> int:
    """Keep worker processes; the exit code."""
    is_ready = False

    def tell(event: Event) -> None:
        nonlocal is_ready
        log_event(event)
        if isinstance(event, ProcessReady) and not is_ready:
            is_ready = True
            supervisor.tell("READY=1")

    fleet = ProcessGroup(
        command,
        processes,
        later_arguments=["--announced"],
        stopping=Stopping(finish=stop_wait),
        told=tell,
    )
    # Its processes are hurried with it, and have an end of their own.
    Stop("the worker processes stop", last_wait=PROCESSES_LAST_WAIT).tell(fleet)
    return 0 if await fleet.run() else 1


def _prepared(given: Given) -> tuple[Penstock, Worker, Stop]:
    """The app, its worker, and what tells that to stop from the very start."""
    app = find_app(given.target)
    given.where.lead(app)
    given.where.pass_on()
    if given.is_announced:
        announced_elsewhere(app.database)
    worker = configured(app, given)
    stop = Stop("the worker stops", app.database)
    stop.tell(worker)
    worker.on_stop = stop.takes
    if given.under_parent:
        supervisor.leave_to_parent()
        app.events.subscribe(LeaseTaken, lambda _: _tell_parent(STARTED))
        app.events.subscribe(DatabaseGone, lambda _: _tell_parent(WAITING))
        _stop_with_stdin(stop)
    return app, worker, stop


def _tell_parent(message: bytes) -> None:
    """Tell the parent process that the end of this one is no failed start any more."""
    with suppress(OSError):  # The parent is gone.
        os.write(sys.stdin.fileno(), message)


def configured(app: Penstock, given: Given) -> Worker:
    """The worker that the command line describes."""
    upkeep = Upkeep()
    return app.worker(
        queues_of(given.queues),
        tenants=given.tenants or None,
        except_tenants=given.except_tenants,
        children=given.children,
        liveness=Liveness(lease=given.lease, heartbeat=given.heartbeat, exit_on_stall=True),
        stopping=Stopping(finish=given.stop_wait),
        # With a short lease, look for the lost as often as they can be found.
        upkeep=Upkeep(rescue=min(upkeep.rescue, given.lease / 3)),
        log=JobLog(completed=given.log_jobs, tracebacks=given.dev),
    )


def _stop_with_stdin(stop: Stop) -> None:
    """Stop when stdin is closed, which the parent's end brings about."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            if os.read(sys.stdin.fileno(), 1024):
                return
        except ConnectionResetError:
            pass  # The parent ended without reading what this process had told it.
        loop.remove_reader(sys.stdin.fileno())
        if not stop.is_asked:
            logger.warning("The parent process is gone; the worker stops.")
            stop.ask()

    loop.add_reader(sys.stdin.fileno(), read)
