"""`penstock audit`: who changed what."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.moment import past
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where


@examples(
    "penstock audit",
    "penstock audit --actor ada --since 7d",
    "penstock audit --action cancel --target 42 --json",
)
@spread
def audit(
    *,
    actor: Annotated[
        str | None,
        typer.Option(help="Whose changes: ada, or key:ci.", show_default=False),
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="Of which kind, such as set_limit.", show_default=False)
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Of what: a job's id, a queue's name.", show_default=False),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Of this tenant alone.", show_default=False)
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(parser=past, metavar="WHEN", help="Not before: 7d ago, or a time."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Go on behind this entry.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50,
    where: Where,
    output: Output,
) -> None:
    """Show who changed what, the latest first.

    Settings, schedules, jobs, keys, people and logins; not who enqueued, which is with the job.
    """
    from penstock.cli.access import show_audit

    which = {"actor": actor, "action": action, "target": target, "tenant": tenant, "since": since}
    asyncio.run(show_audit(which, after, limit, where, output))
