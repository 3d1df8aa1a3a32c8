"""What `penstock events` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli.opening import reached_for
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens import style
from penstock.cli.where import Where
from penstock.cli.words import at
from penstock.groups.events import WEEK, KeptEvent, SentEvent

SHOWN = 60


async def send(
    name: str, payload: str, tenant: str | None, keep: float | None, where: Where, output: Output
) -> None:
    value = _read(payload)
    kept = WEEK if keep is None else keep
    async with reached_for(where, tenant) as queue:
        sent = await queue.client.send_event(name, value, tenant=tenant or "", keep=kept)
    output.show(sent, lambda: _told(sent))


async def list_page(
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
        return style.nothing("No event is kept.")
    sheet = style.Sheet(terminal().width)
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
            Text(_short(event.payload), style.FAINT),
        )
    return sheet.table


def _short(payload: Any) -> str:
    text = msgspec.json.encode(payload).decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
