"""`penstock events`: send events to jobs that wait for them, and list them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import open_queue_for
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, say, terminal
from penstock.cli.tables import format_time
from penstock.groups.events import WEEK, KeptEvent, SentEvent

app = group("events", help="Send events to jobs that wait for them; list them.")

Tenant = Annotated[
    str | None, typer.Option(help="The tenant that the event belongs to.", show_default=False)
]

MAX_PAYLOAD_LENGTH = 60


@app.command("send", cls=Command)
@examples(
    "penstock events send maintenance-over",
    """penstock events send approved:42 '{"by": "Ada"}' --tenant acme""",
)
@expand_options
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
            parser=parse_duration,
            metavar="DURATION",
            help="For how long it is kept for jobs that come to wait for it; 7 days unless given.",
            show_default=False,
        ),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Send an event to every job that waits for its name, now or while it is kept."""
    asyncio.run(_send(name, payload, tenant, keep, db, output))


@app.command("list", cls=Command)
@examples("penstock events list", "penstock events list --name approved:42 --json")
@expand_options
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
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List the events that are kept, newest first."""
    asyncio.run(_list_page({"name": name, "tenant": tenant}, db, output, limit, after))


async def _send(
    name: str,
    payload: str,
    tenant: str | None,
    keep: float | None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    value = _parse_payload(payload)
    keep_seconds = WEEK if keep is None else keep
    async with open_queue_for(db, tenant) as queue:
        sent = await queue.client.send_event(name, value, tenant=tenant or "", keep=keep_seconds)
    output.show(sent, lambda: _describe_event(sent))


async def _list_page(
    filters: dict[str, Any], db: DatabaseOptions, output: Output, limit: int, after: str | None
) -> None:
    async with open_queue_for(db, filters["tenant"]) as queue:
        events = await queue.client.sent_events(after=after, limit=limit, **filters)
    next_id = events[-1].id if len(events) == limit else None
    output.show({"events": events, "after": next_id}, lambda: _events_table(events))
    if next_id and not output.as_json:
        say(f"There may be more: --after {next_id}.")


def _parse_payload(payload: str) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise typer.BadParameter(
            f'The payload is not JSON: {error}. Write it like \'{{"by": "Ada"}}\', or \'"text"\'.'
        ) from error


def _describe_event(sent: SentEvent) -> str:
    woken_jobs = {0: "No job waits for it now", 1: "1 job goes on"}.get(
        sent.woken, f"{sent.woken:,} jobs go on"
    )
    return f"Event {sent.id} was sent: {sent.name}. {woken_jobs}."


def _events_table(events: Sequence[KeptEvent]) -> RenderableType:
    if not events:
        return tables.empty_text("No event is kept.")
    builder = tables.TableBuilder(terminal().width)
    builder.column("event", align_right=True)
    builder.column("sent")
    builder.column("kept until", wider_than=100)
    builder.column("name")
    builder.column("tenant", needed=any(event.tenant for event in events))
    builder.column("payload", elastic=True)
    for event in events:
        builder.row(
            event.id,
            format_time(event.sent_at),
            format_time(event.expires_at),
            event.name,
            event.tenant,
            Text(_shorten_payload(event.payload), tables.FAINT),
        )
    return builder.table


def _shorten_payload(payload: Any) -> str:
    text = msgspec.json.encode(payload).decode()
    return text if len(text) <= MAX_PAYLOAD_LENGTH else text[: MAX_PAYLOAD_LENGTH - 1] + "…"
