"""What `penstock work` does once it knows what is wanted."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

from penstock.app import Penstock
from penstock.cli import supervisor
from penstock.cli.exposing import exposed
from penstock.cli.opening import opened
from penstock.cli.serving import queues_of
from penstock.cli.target import find_app
from penstock.cli.where import Where
from penstock.config import Liveness, Stopping, Upkeep
from penstock.events import Event, LeaseTaken
from penstock.worker import Tally, Worker
from penstock.worker.fleet import STARTED, Fleet, ProcessReady, log_event

logger = logging.getLogger("penstock.work")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
THREADS = "penstock"  # how the names of the threads that run handlers begin
THREAD_GRACE = 1.0


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
    under_parent: bool


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


def leave(code: int = 0) -> NoReturn:
    """End the process, also when a handler's thread never ends: Python would wait for it."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    stuck = [each for each in threading.enumerate() if _is_handlers(each)]
    for each in stuck:
        each.join(THREAD_GRACE / len(stuck))
    if left := sum(map(_is_handlers, threading.enumerate())):
        logger.error("The process leaves although handlers still run in threads: %d.", left)
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _is_handlers(thread: threading.Thread) -> bool:
    return not thread.daemon and thread.name.startswith(THREADS)


async def serve(given: Given) -> None:
    """Work until a signal says stop."""
    async with _worker(given) as worker:
        await worker.run(lambda: supervisor.tell("READY=1"))


async def drain(given: Given, limit: int | None, longest: float | None) -> Drained:
    """Work off what there is."""
    async with _worker(given) as worker:
        began = time.monotonic()
        tally = await worker.drain(limit=limit, seconds=longest)
        return Drained(tally, time.monotonic() - began)


async def keep_fleet(command: Sequence[str], processes: int) -> int:
    """Keep worker processes; the exit code."""
    is_ready = False

    def tell(event: Event) -> None:
        nonlocal is_ready
        log_event(event)
        if isinstance(event, ProcessReady) and not is_ready:
            is_ready = True
            supervisor.tell("READY=1")

    def stop(_: signal.Signals) -> None:
        supervisor.tell("STOPPING=1")
        fleet.ask_to_stop()

    fleet = Fleet(command, processes, told=tell)
    on_stop_signals(stop)
    return 0 if await fleet.run() else 1


@asynccontextmanager
async def _worker(given: Given) -> AsyncIterator[Worker]:
    """The worker on its open app, told of signals from the very start."""
    app = find_app(given.target)
    given.where.lead(app)
    given.where.pass_on()
    worker = configured(app, given)
    stop = _Stop(worker)
    on_stop_signals(stop.signalled)
    if given.under_parent:
        supervisor.leave_to_parent()
        app.events.subscribe(LeaseTaken, _tell_parent)
        stop.with_stdin()
    with exposed(app, given.metrics):
        async with opened(app):
            yield worker


def _tell_parent(_: LeaseTaken) -> None:
    """Tell the parent process that this one has started: its end is no failed start any more."""
    with suppress(OSError):  # The parent is gone.
        os.write(sys.stdin.fileno(), STARTED)


def configured(app: Penstock, given: Given) -> Worker:
    """The worker that the command line describes."""
    upkeep = Upkeep()
    return app.worker(
        queues_of(app, given.queues, given.children),
        tenants=given.tenants or None,
        except_tenants=given.except_tenants,
        children=given.children,
        liveness=Liveness(lease=given.lease, heartbeat=given.heartbeat, exit_on_stall=True),
        stopping=Stopping(finish=given.stop_wait),
        # With a short lease, look for the lost as often as they can be found.
        upkeep=Upkeep(rescue=min(upkeep.rescue, given.lease / 3)),
    )


def on_stop_signals(call: Callable[[signal.Signals], None]) -> None:
    """Call on each signal that means stop, from now on."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, call, number)


class _Stop:
    """Passes on to a worker that it should stop, and says so."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._asked = False

    def signalled(self, number: signal.Signals) -> None:
        if self._asked:
            logger.info("%s again: the stop is hurried.", number.name)
        else:
            logger.info("%s: the worker stops; a second one hurries it.", number.name)
        self._ask()

    def with_stdin(self) -> None:
        """Stop when stdin is closed, which the parent's end brings about."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def _read(self) -> None:
        if os.read(sys.stdin.fileno(), 1024):
            return
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        if not self._asked:
            logger.warning("The parent process is gone; the worker stops.")
            self._ask()

    def _ask(self) -> None:
        self._asked = True
        supervisor.tell("STOPPING=1")
        self._worker.ask_to_stop()
