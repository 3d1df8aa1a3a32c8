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
from penstock.cli.database import find_app, open_app
from penstock.cli.errors import CannotListen, ExtraMissing, PortTaken
from penstock.cli.framework import examples, expand_options
from penstock.cli.listening import process_on_port
from penstock.cli.logs import LOG_PANEL, LogOptions
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output
from penstock.cli.process import StopSignals, exit_process, leave_systemd_to_parent, notify_systemd
from penstock.cli.worker_options import LIFETIME_PANEL, WORK_PANEL, Queue, StopWait, parse_queues
from penstock.config import JobLog, Liveness, Stopping, Upkeep
from penstock.connect.connector import skip_announcement
from penstock.telemetry import DatabaseGone, Event, LeaseTaken
from penstock.worker import Tally, Worker
from penstock.worker.processes import STARTED, WAITING, ProcessGroup, ProcessReady, log_event, run

logger = logging.getLogger("penstock.work")

DRAIN_PANEL = "Work off and leave"

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
        rich_help_panel=WORK_PANEL,
    ),
]
ExceptTenant = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Work for all tenants but this one; may be given several times. On fair queues.",
        rich_help_panel=WORK_PANEL,
    ),
]
Processes = Annotated[
    int,
    typer.Option(min=1, max=1000, help="How many worker processes.", rich_help_panel=WORK_PANEL),
]
Children = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=500,
        help="How many child processes each worker may have for jobs that run isolated; as many "
        "as the machine has processors unless given.",
        show_default=False,
        rich_help_panel=WORK_PANEL,
    ),
]
Drain = Annotated[
    bool,
    typer.Option(
        "--drain",
        help="Work off what is ready or becomes due meanwhile, print the counts, and leave.",
        rich_help_panel=DRAIN_PANEL,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="With --drain: the most jobs to take.", rich_help_panel=DRAIN_PANEL),
]
For = Annotated[
    float | None,
    typer.Option(
        "--for",
        parser=parse_duration,
        metavar="DURATION",
        help="With --drain: the longest to go on claiming, such as 25s.",
        rich_help_panel=DRAIN_PANEL,
    ),
]
Lease = Annotated[
    float,
    typer.Option(
        parser=parse_duration,
        metavar="DURATION",
        help="How long after its last sign of life a worker counts as lost.",
        show_default="60s",
        rich_help_panel=LIFETIME_PANEL,
    ),
]
Heartbeat = Annotated[
    float | None,
    typer.Option(
        parser=parse_duration,
        metavar="DURATION",
        help="How often it gives one; a sixth of the lease unless given.",
        show_default=False,
        rich_help_panel=LIFETIME_PANEL,
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS:]PORT",
        help="Serve what this worker did to Prometheus, at /metrics of a port; on this machine "
        "alone, unless an address is given.",
        show_default=False,
        rich_help_panel=LIFETIME_PANEL,
    ),
]
LogJobs = Annotated[
    bool,
    typer.Option(
        "--log-jobs/--no-log-jobs",
        help="Log each job that completes, with its duration: up to 100 a second, beyond that "
        "their number.",
        rich_help_panel=LOG_PANEL,
    ),
]
Dev = Annotated[
    bool,
    typer.Option(
        "--dev", help="Log the traceback of each attempt that fails.", rich_help_panel=LOG_PANEL
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

LOOPBACK = "127.0.0.1"
# After a third signal each of several processes ends by itself, before it is killed.
PROCESSES_FORCED_STOP_LIMIT_S = 10.0


@examples(
    "penstock work shop",
    "penstock work shop:app --queue mail:5 --queue default:50 --processes 2",
    "penstock work shop --queue imports:20 --tenant acme",
    "penstock work shop --queue parsing:4 --children 4",
    "penstock work shop --drain --for 25s --json",
)
@expand_options
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
    logs: LogOptions,
    db: DatabaseOptions,
    output: Output,
    under_parent: UnderParent = False,
    announced: Announced = False,
) -> None:
    """Run the jobs of an app.

    It works on the app's own database, unless another is given. With --drain it leaves when there
    is nothing more to do, as hosts that are driven by cron want it; --json goes with that.
    """
    if not drain and (limit is not None or longest is not None or output.as_json):
        raise typer.BadParameter("--limit, --for and --json can only be used with --drain")
    if drain and processes > 1:
        raise typer.BadParameter(
            "--drain cannot be used with --processes, since it runs in one process"
        )
    if metrics is not None and processes > 1:
        raise typer.BadParameter(
            "--metrics cannot be used with --processes, since each process needs a port; start "
            "one command for each process instead"
        )
    logs.to_stderr()

    if processes > 1:
        exit_process(run(_keep_processes(_child_command(), processes, stop_wait)))
    options = WorkOptions(
        target=target,
        queues=tuple(queue or ()),
        tenants=tuple(tenant or ()),
        except_tenants=tuple(except_tenant or ()),
        children=children,
        db=db,
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
        run(_run_worker(options))
        exit_process()
    drained = run(_drain(options, limit, longest))
    output.show(drained.as_document(), lambda: str(drained))
    exit_process(1 if drained.tally.unwritten else 0)


def _child_command() -> list[str]:
    """Return the command line of one worker process: this command with options appended.

    The last of a repeated option takes effect, so the appended `--processes 1` does.
    """
    arguments = [argument for argument in sys.argv[1:] if argument != "--"]
    return [
        *(sys.executable, "-m", "penstock.cli"),
        *arguments,
        *("--processes", "1", "--under-parent"),
    ]


@contextmanager
def _serve_metrics(app: Penstock, address: str | None) -> Iterator[None]:
    """Serve this process's `/metrics` within the block, if an address is given."""
    if address is None:
        yield
        return
    host, port = _parse_address(address)
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from penstock.service.metrics import ProcessMetrics
    except ModuleNotFoundError as error:
        raise ExtraMissing("service", str(error.name)) from error
    registry = CollectorRegistry()
    metrics = ProcessMetrics(app.events, lambda: app.declared_queues, registry)
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
        metrics.close()


def _parse_address(address: str) -> tuple[str, int]:
    """Parse a host and port. Without a host, as in `9100`, only this machine can connect."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise typer.BadParameter(
            f"--metrics {address} has no valid port; write 9100, or 0.0.0.0:9100"
        )
    return host or LOOPBACK, int(port)


def _refusal(host: str, port: int, error: OSError) -> CannotListen:
    if error.errno != errno.EADDRINUSE:
        return CannotListen(f"Cannot listen on {host}:{port}: {error.strerror}.")
    holder = process_on_port(port) or "another process"
    return PortTaken(
        f"Port {port} of {host} is taken: {holder} has it. Give another with --metrics.", port=port
    )


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """The options of `penstock work`, except those for draining."""

    target: str
    queues: tuple[str, ...]
    tenants: tuple[str, ...]
    except_tenants: tuple[str, ...]
    children: int | None
    db: DatabaseOptions
    lease: float
    heartbeat: float
    stop_wait: float
    metrics: str | None
    log_jobs: bool
    dev: bool
    under_parent: bool
    is_announced: bool


@dataclass(frozen=True, slots=True)
class DrainResult:
    """The result of a drain: the number of attempts by outcome, and how long the drain took."""

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


async def _run_worker(options: WorkOptions) -> None:
    """Run the worker until a signal stops it."""
    app, worker, stop = _prepare(options)
    with stop.cancelling_startup() as started, _serve_metrics(app, options.metrics):
        async with open_app(app, waits_for_room=True):
            started()
            await worker.run(lambda: notify_systemd("READY=1"))


async def _drain(options: WorkOptions, limit: int | None, max_seconds: float | None) -> DrainResult:
    """Drain the queues within the limits, and return how many attempts had each outcome."""
    app, worker, stop = _prepare(options)
    began = time.monotonic()
    with stop.cancelling_startup() as started, _serve_metrics(app, options.metrics):
        async with open_app(app, waits_for_room=True):
            started()
            began = time.monotonic()
            await worker.drain(limit=limit, seconds=max_seconds)
    return DrainResult(worker.tally, time.monotonic() - began)


async def _keep_processes(command: Sequence[str], processes: int, stop_wait: float) -> int:
    """Run several worker processes, and return the exit code."""
    is_ready = False

    def on_event(event: Event) -> None:
        nonlocal is_ready
        log_event(event)
        if isinstance(event, ProcessReady) and not is_ready:
            is_ready = True
            notify_systemd("READY=1")

    group = ProcessGroup(
        command,
        processes,
        later_arguments=["--announced"],
        stopping=Stopping(finish=stop_wait),
        on_event=on_event,
    )
    # A signal that hurries the group also hurries its processes, which end by themselves.
    StopSignals("the worker processes stop", last_wait=PROCESSES_FORCED_STOP_LIMIT_S).add(group)
    return 0 if await group.run() else 1


def _prepare(options: WorkOptions) -> tuple[Penstock, Worker, StopSignals]:
    """Return the app, its worker, and the `StopSignals` that stop the worker.

    Signals are handled from now on, even before the worker starts.
    """
    app = find_app(options.target)
    options.db.apply_to(app)
    options.db.export()
    if options.is_announced:
        skip_announcement(app.database)
    worker = _make_worker(app, options)
    stop = StopSignals("the worker stops", app.database)
    stop.add(worker)
    worker.on_stop = stop.allow_seconds
    if options.under_parent:
        leave_systemd_to_parent()
        app.events.subscribe(LeaseTaken, lambda _: _notify_parent(STARTED))
        app.events.subscribe(DatabaseGone, lambda _: _notify_parent(WAITING))
        _stop_with_stdin(stop)
    return app, worker, stop


def _notify_parent(message: bytes) -> None:
    """Tell the parent process that the worker has started, or that it waits for the database."""
    with suppress(OSError):  # The parent is gone.
        os.write(sys.stdin.fileno(), message)


def _make_worker(app: Penstock, options: WorkOptions) -> Worker:
    """Return the worker that the options describe."""
    upkeep = Upkeep()
    return app.worker(
        parse_queues(options.queues),
        tenants=options.tenants or None,
        except_tenants=options.except_tenants,
        children=options.children,
        liveness=Liveness(lease=options.lease, heartbeat=options.heartbeat, exit_on_stall=True),
        stopping=Stopping(finish=options.stop_wait),
        # With a short lease, look for lost workers more often: every third of the lease.
        upkeep=Upkeep(rescue=min(upkeep.rescue, options.lease / 3)),
        log=JobLog(completed=options.log_jobs, tracebacks=options.dev),
    )


def _stop_with_stdin(stop: StopSignals) -> None:
    """Stop the worker when stdin is closed, which happens when the parent ends."""
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
