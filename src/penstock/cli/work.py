"""`penstock work`: a worker, or several, for the jobs of an app."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.duration import seconds
from penstock.cli.logs import LogFormat, LogLevel, log_to_stderr

WORK = "What to work on"
DRAIN = "Work off and leave"
DATABASE = "Another database than the app's own"
LIFE = "Life and death"
LOGS = "Logs"

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
        "Without any: the queues that the app's tasks name.",
        rich_help_panel=WORK,
    ),
]
Processes = Annotated[
    int, typer.Option(min=1, max=1000, help="How many worker processes.", rich_help_panel=WORK)
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
AsJson = Annotated[
    bool,
    typer.Option("--json", help="With --drain: one JSON document.", rich_help_panel=DRAIN),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(help="The address of a Postgres.", show_default=False, rich_help_panel=DATABASE),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The folder of an embedded Postgres.", show_default=False, rich_help_panel=DATABASE
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        help="The schema with the queue's tables.", show_default=False, rich_help_panel=DATABASE
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
LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", rich_help_panel=LOGS)]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", rich_help_panel=LOGS)]
StopWithStdin = Annotated[
    bool,
    typer.Option(
        "--stop-with-stdin", hidden=True, help="Stop when stdin is closed: the parent is gone."
    ),
]


def work(
    target: Target,
    queue: Queue = None,
    processes: Processes = 1,
    drain: Drain = False,
    limit: Limit = None,
    longest: For = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    schema: Schema = None,
    lease: Lease = 60.0,
    heartbeat: Heartbeat = None,
    stop_wait: StopWait = 20.0,
    log_format: LogFormatOption = LogFormat.text,
    log_level: LogLevelOption = LogLevel.info,
    stop_with_stdin: StopWithStdin = False,
) -> None:
    """Run the jobs of an app.

    \b
    penstock work shop.jobs
    penstock work shop.jobs:app --queue documents:50 --queue email:5 --processes 4
    penstock work shop.jobs --drain --for 25s --json     for hosts that are driven by cron
    """
    if not drain and (limit is not None or longest is not None or as_json):
        raise typer.BadParameter("--limit, --for and --json go with --drain")
    if drain and processes > 1:
        raise typer.BadParameter("--drain works in one process")
    log_to_stderr(log_format, log_level)

    from penstock.cli import service
    from penstock.worker.process import run

    if processes > 1:
        service.leave(run(service.keep_fleet(_one_of_the_fleet(), processes)))
    given = service.Given(
        target=target,
        queues=tuple(queue or ()),
        database_url=database_url,
        data_dir=data_dir,
        schema=schema,
        lease=lease,
        heartbeat=lease / 6 if heartbeat is None else heartbeat,
        stop_wait=stop_wait,
        stop_with_stdin=stop_with_stdin,
    )
    if not drain:
        run(service.serve(given))
        service.leave()
    drained = run(service.drain(given, limit, longest))
    typer.echo(drained.as_json() if as_json else str(drained))
    service.leave()


def _one_of_the_fleet() -> list[str]:
    """This very command for one process; of an option that is given twice the last one counts."""
    given = [each for each in sys.argv[1:] if each != "--"]
    return [
        *(sys.executable, "-m", "penstock.cli"),
        *given,
        *("--processes", "1", "--stop-with-stdin"),
    ]
