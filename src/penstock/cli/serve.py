"""`penstock serve`: the HTTP API of an app."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.listening import Listening, expect_service
from penstock.cli.logs import Logs
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where


@examples(
    "penstock serve shop",
    "penstock serve shop:app --port 9000 --log-format json",
    "penstock serve shop --root-path /queue --proxy 127.0.0.1",
)
@spread
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
    listening: Listening,
    logs: Logs,
    where: Where,
    output: Output,
) -> None:
    """Serve the HTTP API of an app, and run none of its jobs.

    It serves the app's own database, unless another is given, and listens on this machine alone,
    unless told otherwise. The tables must be there: `penstock migrate` makes them. With --json the
    addresses are one JSON document, printed when it listens.
    """
    expect_service()
    logs.to_stderr()

    from penstock.cli import hosting
    from penstock.cli.stopping import leave
    from penstock.cli.target import find_app
    from penstock.worker.processes import run

    app = find_app(target)
    where.lead(app)
    hosted = hosting.Hosted(app=app, name=target, listening=listening)
    run(hosting.serve(hosted, lambda said: output.show(said.as_document(), lambda: str(said))))
    leave()
