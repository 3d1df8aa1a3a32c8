"""`penstock events`: what jobs wait for."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import seconds
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("events", help="Send events to jobs that wait for them; list them.")

Tenant = Annotated[
    str | None, typer.Option(help="The tenant that the event belongs to.", show_default=False)
]


@app.command("send", cls=Command)
@examples(
    "penstock events send maintenance-over",
    """penstock events send approved:42 '{"by": "Ada"}' --tenant acme""",
)
@spread
def send_event(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that jobs wait for.")],
    payload: Annotated[
        str,
        typer.Argument(metavar="[JSON]", help="What they get with it.", show_default=False),
    ] = "null",
    tenant: Tenant = None,
    keep: Annotated[
        float | None,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            help="For how long it is kept for jobs that come to wait for it; 7 days unless given.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Send an event to every job that waits for its name, now or while it is kept."""
    from penstock.cli.eventing import send

    asyncio.run(send(name, payload, tenant, keep, where, output))


@app.command("list", cls=Command)
@examples("penstock events list", "penstock events list --name approved:42 --json")
@spread
def list_events(
    *,
    name: Annotated[
        str | None, typer.Option(help="Events of this name alone.", show_default=False)
    ] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Those older than this event.", show_default=False),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """List the events that are kept, newest first."""
    from penstock.cli.eventing import list_page

    asyncio.run(list_page({"name": name, "tenant": tenant}, where, output, limit, after))
