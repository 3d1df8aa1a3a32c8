"""`penstock work`: a worker, or several, for the jobs of an app."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.duration import seconds
from penstock.cli.logs import PANEL as LOGS
from penstock.cli.logs import Logs
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

WORK = "What to work on"
DRAIN = "Work off and leave"
LIFE = "Life and death"

Target = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="Where the app is: a module as Python imports it, or module:name if it has several. "
        "The current folder is looked in first.",
    ),
]
Queue = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[:SLOTS]",
        help="A queue to serve and how many of its jobs run at once (100). "
        "Without any: the queues that the app's tasks and schedules name.",
        rich_help_panel=WORK,
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
StopWait = Annotated[
    float,
    typer.Option(
        parser=seconds,
        metavar="DURATION",
        help="How long running jobs may finish after SIGTERM or Ctrl-C; a second one hurries.",
        show_default="20s",
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

    from penstock.cli import service
    from penstock.cli.stopping import leave
    from penstock.worker.processes import run

    if processes > 1:
        leave(run(service.keep_fleet(_one_of_the_fleet(), processes, stop_wait)))
    given = service.Given(
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
        run(service.serve(given))
        leave()
    drained = run(service.drain(given, limit, longest))
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
