"""`penstock audit`: who changed what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import open_queue
from penstock.cli.framework import examples, expand_options
from penstock.cli.options import DatabaseOptions, parse_past_time
from penstock.cli.output import Output, say, terminal
from penstock.cli.tables import format_time
from penstock.groups.audit import AuditEntry


@examples(
    "penstock audit",
    "penstock audit --actor ada --since 7d",
    "penstock audit --action cancel --target 42 --json",
)
@expand_options
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
        typer.Option(parser=parse_past_time, metavar="WHEN", help="Not before: 7d ago, or a time."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Go on behind this entry.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Show who changed what, the latest first.

    Settings, schedules, jobs, keys, people and logins; not who enqueued, which is with the job.
    """
    filters = {"actor": actor, "action": action, "target": target, "tenant": tenant, "since": since}
    asyncio.run(_show_audit(filters, after, limit, db, output))


def _audit_table(entries: Sequence[AuditEntry], width: int) -> RenderableType:
    if not entries:
        return tables.empty_text("Nothing is noted.")
    builder = tables.TableBuilder(width, fills=True)
    builder.column("at (UTC)")
    builder.column("who", max_width=max(12, width // 5))
    builder.column("did")
    builder.column("tenant", needed=any(entry.tenant for entry in entries))
    builder.column("to", max_width=max(12, width // 4))
    builder.column("", elastic=True)
    for entry in entries:
        detail = "" if entry.detail is None else msgspec.json.encode(entry.detail).decode()
        builder.row(
            format_time(entry.at),
            entry.actor,
            entry.action,
            entry.tenant,
            entry.target or "",
            Text(detail, tables.FAINT),
        )
    return builder.table


async def _show_audit(
    filters: dict[str, Any], after: str | None, limit: int, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue(db) as queue:
        page = await queue.app.audit(**filters, after=after, limit=limit)
    document = {"entries": page.entries, "after": page.after}
    output.show(document, lambda: _audit_table(page.entries, terminal().width))
    if page.after is not None and not output.as_json:
        say(f"There may be more: --after {page.after}")
