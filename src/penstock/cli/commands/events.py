"""`penstock events`: what jobs wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import reached_for
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, say, terminal
from penstock.cli.tables import at
from penstock.groups.events import WEEK, KeptEvent, SentEvent

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
    asyncio.run(_send(name, payload, tenant, keep, where, output))


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
    asyncio.run(_list_page({"name": name, "tenant": tenant}, where, output, limit, after))


SHOWN = 60


async def _send(
    name: str, payload: str, tenant: str | None, keep: float | None, where: Where, output: Output
) -> None:
    value = _read(payload)
    kept = WEEK if keep is None else keep
    async with reached_for(where, tenant) as queue:
        sent = await queue.client.send_event(name, value, tenant=tenant or "", keep=kept)
    output.show(sent, lambda: _told(sent))


async def _list_page(
    chosen: dict[str, Any], where: Where, output: Output, limit: int, after: str | None
) -> None:
    async with reached_for(where, chosen["tenant"]) as queue:
        found = await queue.client.sent_events(after=after, limit=limit, **chosen)
    following = found[-1].id if len(found) == limit else None
    output.show({"events": found, "after": following}, lambda: _table(found))
    if following and not output.as_json:
        say(f"There may be more: --after {following}.")


def _read(payload: str) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise typer.BadParameter(
            f'The payload is no JSON: {error}. Write it like \'{{"by": "Ada"}}\', or \'"text"\'.'
        ) from error


def _told(sent: SentEvent) -> str:
    who = {0: "No job waits for it now", 1: "1 job goes on"}.get(
        sent.woken, f"{sent.woken:,} jobs go on"
    )
    return f"Event {sent.id} is sent: {sent.name}. {who}."


def _table(found: Sequence[KeptEvent]) -> RenderableType:
    if not found:
        return tables.nothing("No event is kept.")
    sheet = tables.Sheet(terminal().width)
    sheet.column("event", right=True)
    sheet.column("sent")
    sheet.column("kept until", above=100)
    sheet.column("name")
    sheet.column("tenant", needed=any(event.tenant for event in found))
    sheet.column("payload", elastic=True)
    for event in found:
        sheet.row(
            event.id,
            at(event.sent_at),
            at(event.expires_at),
            event.name,
            event.tenant,
            Text(_short(event.payload), tables.FAINT),
        )
    return sheet.table


def _short(payload: Any) -> str:
    text = msgspec.json.encode(payload).decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
