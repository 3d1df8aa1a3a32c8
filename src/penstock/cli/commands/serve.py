"""`penstock serve` and `penstock up`: the HTTP API, and with `up` also a database and a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.framework import examples, expand_options
from penstock.cli.listening import ListenOptions, require_service
from penstock.cli.logs import LogOptions
from penstock.cli.options import DatabaseOptions
from penstock.cli.output import Output
from penstock.cli.worker_options import Queue, StopWait

if TYPE_CHECKING:
    from penstock.app.app import Penstock
    from penstock.worker import Worker


@examples(
    "penstock serve shop",
    "penstock serve shop:app --port 9000 --log-format json",
    "penstock serve shop --root-path /queue --proxy 127.0.0.1",
)
@expand_options
def serve(
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="APP",
            help="Where the app is, whose tasks can be enqueued: a module as Python imports it, or "
            "module:name if it has several. The current folder is looked in first.",
        ),
    ],
    listening: ListenOptions,
    logs: LogOptions,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Serve the HTTP API of an app, and run none of its jobs.

    It serves the app's own database, unless another is given, and listens on this machine alone,
    unless told otherwise. The tables must be there: `penstock migrate` makes them. With --json the
    addresses are one JSON document, printed when it listens.
    """
    require_service()
    logs.to_stderr()

    from penstock.cli import hosting
    from penstock.cli.database import find_app
    from penstock.cli.process import exit_process
    from penstock.worker.processes import run

    app = find_app(target)
    db.apply_to(app)
    served = hosting.ServedApp(app=app, name=target, listening=listening)
    run(
        hosting.serve(served, lambda banner: output.show(banner.as_document(), lambda: str(banner)))
    )
    exit_process()


@examples("penstock up shop", "penstock up shop --queue mail:5 --port 9000", "penstock up")
@expand_options
def up(
    *,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP]",
            help="Where the app is: a module as Python imports it, or module:name if it has "
            "several. Without one there are the applications that come with Penstock, if they are "
            "installed, and the API, which shows and changes all jobs.",
            show_default=False,
        ),
    ] = None,
    queue: Queue = None,
    stop_wait: StopWait = 20.0,
    listening: ListenOptions,
    logs: LogOptions,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Start all in one process: database, worker and API.

    For development. Without a database's address it starts the embedded Postgres. Migrations are
    applied. In production `penstock migrate`, `penstock serve` and `penstock work` are apart.
    """
    require_service()
    logs.to_stderr()

    from penstock.app.app import Penstock
    from penstock.cli import applications, hosting
    from penstock.cli.database import find_app
    from penstock.cli.process import exit_process
    from penstock.worker.processes import run

    app = Penstock() if target is None else find_app(target)
    db.apply_to(app)
    name = target or ", ".join(applications.install(app)) or None
    served = hosting.ServedApp(app=app, name=name, listening=listening, is_default=target is None)
    make_worker = None if name is None else lambda: _worker(app, queue, stop_wait)
    run(
        hosting.up(
            served,
            make_worker,
            lambda banner: output.show(banner.as_document(), lambda: str(banner)),
        )
    )
    exit_process()


def _worker(app: Penstock, queue: list[str] | None, stop_wait: float) -> Worker:
    from penstock.cli.worker_options import parse_queues
    from penstock.config import JobLog, Liveness, Stopping

    return app.worker(
        parse_queues(queue or ()),
        liveness=Liveness(exit_on_stall=True),
        stopping=Stopping(finish=stop_wait),
        log=JobLog(tracebacks=True),
    )
