"""`penstock up`: all that a developer's machine needs, in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.listening import Listening, expect_service
from penstock.cli.logs import Logs
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where
from penstock.cli.work import Queue, StopWait

if TYPE_CHECKING:
    from penstock.app.app import Penstock
    from penstock.worker import Worker


@examples("penstock up shop", "penstock up shop --queue mail:5 --port 9000", "penstock up")
@spread
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
    listening: Listening,
    logs: Logs,
    where: Where,
    output: Output,
) -> None:
    """Start all in one process: database, worker and API.

    For development. Without a database's address it starts the embedded Postgres. Migrations are
    applied. In production `penstock migrate`, `penstock serve` and `penstock work` are apart.
    """
    expect_service()
    logs.to_stderr()

    from penstock.app.app import Penstock
    from penstock.cli import applications, hosting
    from penstock.cli.stopping import leave
    from penstock.cli.target import find_app
    from penstock.worker.processes import run

    app = Penstock() if target is None else find_app(target)
    where.lead(app)
    name = target or ", ".join(applications.install(app)) or None
    hosted = hosting.Hosted(app=app, name=name, listening=listening, is_ours=target is None)
    make = None if name is None else lambda: _worker(app, queue, stop_wait)
    run(hosting.up(hosted, make, lambda said: output.show(said.as_document(), lambda: str(said))))
    leave()


def _worker(app: Penstock, queue: list[str] | None, stop_wait: float) -> Worker:
    from penstock.cli.serving import queues_of
    from penstock.config import JobLog, Liveness, Stopping

    return app.worker(
        queues_of(queue or ()),
        liveness=Liveness(exit_on_stall=True),
        stopping=Stopping(finish=stop_wait),
        log=JobLog(tracebacks=True),
    )
