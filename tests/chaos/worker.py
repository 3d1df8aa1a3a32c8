"""A worker process, which is told `{"url": …, "name": …, "folder": …}`."""

import asyncio
import logging
import signal
import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import msgspec
import uvloop

from penstock.config import Liveness, Pace, Stopping, Upkeep
from penstock.telemetry import (
    DatabaseBack,
    DatabaseGone,
    JobsRescued,
    LeaseLapsed,
    LeaseTaken,
    LoopStalled,
    SettleRefused,
)
from penstock.worker.run import outcomes
from tests.chaos.app import make_app
from tests.chaos.lines import Lines
from tests.chaos.recorded import Failpoint
from tests.fixtures.worker import change_liveness

EVENTS = (
    DatabaseBack,
    DatabaseGone,
    JobsRescued,
    LeaseLapsed,
    LeaseTaken,
    LoopStalled,
    SettleRefused,
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker process is told. Seconds; short ones, so that a fault is soon over.

    Only leases are long, unless a test is about losing one: a slow machine must not take it.
    """

    url: str
    name: str
    folder: str
    slots: int = 10
    lease: float = 60.0
    heartbeat: float = 0.3
    # Once a handler blocks the event loop. Before, a slow machine must not be taken for one.
    stall_limit: float = 60.0
    exit_on_stall: bool = False
    failpoint: str | None = None
    clock_offset: float = 0.0
    isolation_wait: float = 30.0
    rescan: float = 0.2
    every: float | None = None  # the interval of a schedule that it declares


async def main(settings: Settings) -> None:
    folder = Path(settings.folder)
    log = Lines(folder / "log.jsonl", settings.name)
    if settings.clock_offset:
        shift_clock(settings.clock_offset)
    failpoint = Failpoint.parse(settings.failpoint) if settings.failpoint else None

    def blocks_now() -> None:
        change_liveness(worker, stall_limit=settings.stall_limit)

    app = make_app(settings.url, settings.name, folder, failpoint, blocks_now)
    if settings.every is not None:
        app.schedule("ticking", app.tasks.get("note"), every=settings.every, overlap="allow")
    for kind in EVENTS:
        app.events.subscribe(kind, lambda event: _write_event(log, event))
    async with app:
        worker = app.worker(
            {"default": settings.slots},
            name=settings.name,
            liveness=Liveness(
                heartbeat=settings.heartbeat,
                lease=settings.lease,
                stall_limit=60.0,
                stall_warning=0.5,
                exit_on_stall=settings.exit_on_stall,
            ),
            pace=Pace(poll=0.2, rescan=settings.rescan, reconcile=0.5),
            stopping=Stopping(finish=5, cancel=1),
            upkeep=Upkeep(
                election=0.2,
                term=0.6,
                rescue=0.1,
                expire=0.5,
                promote_most=0.2,
                isolation_wait=settings.isolation_wait,
            ),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.ask_to_stop)
        await worker.run((folder / "ready" / settings.name).touch)


def _write_event(log: Lines, event: msgspec.Struct) -> None:
    log.write("event", kind=type(event).__name__, **msgspec.structs.asdict(event))


def shift_clock(seconds: float) -> None:
    """Set this process's clock wrong, wherever the worker looks at one."""

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=seconds)

    outcomes.datetime = Wrong  # type: ignore[attr-defined]


def run(told: str) -> None:
    """All of the process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    uvloop.run(main(msgspec.json.decode(told, type=Settings)))


if __name__ == "__main__":
    run(sys.argv[1])
