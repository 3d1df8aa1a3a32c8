"""`penstock work`: a worker, or several, for the jobs of an app."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.app.app import Penstock
from penstock.cli import process as cli_process
from penstock.cli.database import find_app, opened
from penstock.cli.errors import CannotListen, ExtraMissing, PortTaken
from penstock.cli.framework import examples, spread
from penstock.cli.listening import holder_of
from penstock.cli.logs import PANEL as LOGS
from penstock.cli.logs import Logs
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output
from penstock.cli.process import Stop, leave
from penstock.cli.worker_options import LIFE, WORK, Queue, StopWait, queues_of
from penstock.config import JobLog, Liveness, Stopping, Upkeep
from penstock.connect.connector import announced_elsewhere
from penstock.telemetry import DatabaseGone, Event, LeaseTaken
from penstock.worker import Tally, Worker
from penstock.worker.processes import STARTED, WAITING, ProcessGroup, ProcessReady, log_event, run

DRAIN = "Work off and leave"

Target = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="Where the app is: a module as Python imports it, or module:name if it has several. "
        "The current folder is looked in first.",
    ),
]
Tenant = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Work for this tenant alone; may be given several times. On fair queues.",
        rich_help_panel=WORK,
    ),
]
ExceptTenant = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Work for all tenants but this one; may be given several times. On fair queues.",
        rich_help_panel=WORK,
    ),
]
Processes = Annotated[
    int, typer.Option(min=1, max=1000, help="How many worker processes.", rich_help_panel=WORK)
]
Children = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=500,
        help="How many child processes each worker may have for jobs that run isolated; as many "
        "as the machine has processors unless given.",
        show_default=False,
        rich_help_panel=WORK,
    ),
]
Drain = Annotated[
    bool,
    typer.Option(
        "--drain",
        help="Work off what is ready or becomes due meanwhile, print the counts, and leave.",
        rich_help_panel=DRAIN,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="With --drain: the most jobs to take.", rich_help_panel=DRAIN),
]
For = Annotated[
    float | None,
    typer.Option(
        "--for",
        parser=seconds,
        metavar="DURATION",
        help="With --drain: the longest to go on claiming, such as 25s.",
        rich_help_panel=DRAIN,
    ),
]
Lease = Annotated[
    float,
    typer.Option(
        parser=seconds,
        metavar="DURATION",
        help="How long after its last sign of life a worker counts as lost.",
        show_default="60s",
        rich_help_panel=LIFE,
    ),
]
Heartbeat = Annotated[
    float | None,
    typer.Option(
        parser=seconds,
        metavar="DURATION",
        help="How often it gives one; a sixth of the lease unless given.",
        show_default=False,
        rich_help_panel=LIFE,
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS:]PORT",
        help="Serve what this worker did to Prometheus, at /metrics of a port; on this machine "
        "alone, unless an address is given.",
        show_default=False,
        rich_help_panel=LIFE,
    ),
]
LogJobs = Annotated[
    bool,
    typer.Option(
        "--log-jobs/--no-log-jobs",
        help="Log each job that completes, with its duration: up to 100 a second, beyond that "
        "their number.",
        rich_help_panel=LOGS,
    ),
]
Dev = Annotated[
    bool,
    typer.Option(
        "--dev", help="Log the traceback of each attempt that fails.", rich_help_panel=LOGS
    ),
]
UnderParent = Annotated[
    bool,
    typer.Option(
        "--under-parent",
        hidden=True,
        help="Tell the parent process, which is at the other end of stdin, when the worker has its "
        "lease; stop when stdin is closed, because the parent is gone.",
    ),
]

Announced = Annotated[
    bool,
    typer.Option(
        "--announced",
        hidden=True,
        help="Another process of the command says that an embedded Postgres is used.",
    ),
]


@examples(
    "penstock work shop",
    "penstock work shop:app --queue mail:5 --queue default:50 --processes 2",
    "penstock work shop --queue imports:20 --tenant acme",
    "penstock work shop --queue parsing:4 --children 4",
    "penstock work shop --drain --for 25s --json",
)
@spread
def work(
    *,
    target: Target,
    queue: Queue = None,
    tenant: Tenant = None,
    except_tenant: ExceptTenant = None,
    processes: Processes = 1,
    children: Children = None,
    drain: Drain = False,
    limit: Limit = None,
    longest: For = None,
    lease: Lease = 60.0,
    heartbeat: Heartbeat = None,
    stop_wait: StopWait = 20.0,
    metrics: Metrics = None,
    log_jobs: LogJobs = True,
    dev: Dev = False,
    logs: Logs,
    where: Where,
    output: Output,
    under_parent: UnderParent = False,
    announced: Announced = False,
) -> None:
    """Run the jobs of an app.

    It works on the app's own database, unless another is given. With --drain it leaves when there
    is nothing more to do, as hosts that are driven by cron want it; --json goes with that.
    """
    if not drain and (limit is not None or longest is not None or output.as_json):
        raise typer.BadParameter("--limit, --for and --json go with --drain")
    if drain and processes > 1:
        raise typer.BadParameter("--drain works in one process")
    if metrics is not None and processes > 1:
        raise typer.BadParameter("--metrics is the port of one process: start several commands")
    logs.to_stderr()

    if processes > 1:
        leave(run(_keep_processes(_one_of_the_fleet(), processes, stop_wait)))
    given = WorkOptions(
        target=target,
        queues=tuple(queue or ()),
        tenants=tuple(tenant or ()),
        except_tenants=tuple(except_tenant or ()),
        children=children,
        where=where,
        lease=lease,
        heartbeat=lease / 6 if heartbeat is None else heartbeat,
        stop_wait=stop_wait,
        metrics=metrics,
        log_jobs=log_jobs,
        dev=dev,
        under_parent=under_parent,
        is_announced=announced,
    )
    if not drain:
        run(_serve(given))
        leave()
    drained = run(_drain(given, limit, longest))
    output.show(drained.as_document(), lambda: str(drained))
    leave(1 if drained.tally.unwritten else 0)


def _one_of_the_fleet() -> list[str]:
    """This very command for one process; of an option that is given twice the last one counts."""
    given = [each for each in sys.argv[1:] if each != "--"]
    return [
        *(sys.executable, "-m", "penstock.cli"),
        *given,
        *("--processes", "1", "--under-parent"),
    ]


LOCAL = "127.0.0.1"


@contextmanager
def _exposed(app: Penstock, at: str | None) -> Iterator[None]:
    """Serve `/metrics` of this process meanwhile, if anybody asked for that."""
    if at is None:
        yield
        return
    host, port = _parsed_address(at)
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from penstock.service.metrics import ProcessMetrics
    except ModuleNotFoundError as error:
        raise ExtraMissing("service", str(error.name)) from error
    registry = CollectorRegistry()
    counting = ProcessMetrics(app.events, lambda: app.declared_queues, registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise _refusal(host, port, error) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        counting.close()


def _parsed_address(at: str) -> tuple[str, int]:
    """`9100` on this machine alone, `0.0.0.0:9100` on all its addresses."""
    host, _, port = at.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise typer.BadParameter(f"--metrics {at} has no port: write 9100, or 0.0.0.0:9100")
    return host or LOCAL, int(port)


def _refusal(host: str, port: int, error: OSError) -> CannotListen:
    if error.errno != errno.EADDRINUSE:
        return CannotListen(f"{host}:{port} cannot be listened at: {error.strerror}.")
    holder = holder_of(port) or "another process"
    return PortTaken(
        f"Port {port} of {host} is taken: {holder} has it. Give another with --metrics.", port=port
    )


logger = logging.getLogger("penstock.work")

# After a third signal each process of several ends by itself, before it is killed.
PROCESSES_LAST_WAIT = 10.0


@dataclass(frozen=True, slots=True)
class WorkOptions:
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


async def _serve(given: WorkOptions) -> None:
    """Work until a signal says stop."""
    app, worker, stop = _prepared(given)
    with stop.breaks_off_start() as started, _exposed(app, given.metrics):
        async with opened(app, waits_for_room=True):
            started()
            await worker.run(lambda: cli_process.tell_systemd("READY=1"))


async def _drain(given: WorkOptions, limit: int | None, longest: float | None) -> Drained:
    """Work off what there is."""
    app, worker, stop = _prepared(given)
    began = time.monotonic()
    with stop.breaks_off_start() as started, _exposed(app, given.metrics):
        async with opened(app, waits_for_room=True):
            started()
            began = time.monotonic()
            await worker.drain(limit=limit, seconds=longest)
    return Drained(worker.tally, time.monotonic() - began)


async def _keep_processes(command: Sequence[str], processes: int, stop_wait: float) -> int:
    """Keep worker processes; the exit code."""
    is_ready = False

    def tell(event: Event) -> None:
        nonlocal is_ready
        log_event(event)
        if isinstance(event, ProcessReady) and not is_ready:
            is_ready = True
            cli_process.tell_systemd("READY=1")

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


def _prepared(given: WorkOptions) -> tuple[Penstock, Worker, Stop]:
    """The app, its worker, and what tells that to stop from the very start."""
    app = find_app(given.target)
    given.where.lead(app)
    given.where.pass_on()
    if given.is_announced:
        announced_elsewhere(app.database)
    worker = _configured(app, given)
    stop = Stop("the worker stops", app.database)
    stop.tell(worker)
    worker.on_stop = stop.takes
    if given.under_parent:
        cli_process.leave_to_parent()
        app.events.subscribe(LeaseTaken, lambda _: _tell_parent(STARTED))
        app.events.subscribe(DatabaseGone, lambda _: _tell_parent(WAITING))
        _stop_with_stdin(stop)
    return app, worker, stop


def _tell_parent(message: bytes) -> None:
    """Tell the parent process that the end of this one is no failed start any more."""
    with suppress(OSError):  # The parent is gone.
        os.write(sys.stdin.fileno(), message)


def _configured(app: Penstock, given: WorkOptions) -> Worker:
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
