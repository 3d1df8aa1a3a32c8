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
from penstock.cli.database import reached
from penstock.cli.framework import examples, spread
from penstock.cli.options import Where, past
from penstock.cli.output import Output, say, terminal
from penstock.cli.tables import at
from penstock.groups.audit import AuditEntry


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
    which = {"actor": actor, "action": action, "target": target, "tenant": tenant, "since": since}
    asyncio.run(_show_audit(which, after, limit, where, output))


def _audit_table(found: Sequence[AuditEntry], width: int) -> RenderableType:
    if not found:
        return tables.nothing("Nothing is noted.")
    sheet = tables.Sheet(width, fills=True)
    sheet.column("at (UTC)")
    sheet.column("who", most=max(12, width // 5))
    sheet.column("did")
    sheet.column("tenant", needed=any(each.tenant for each in found))
    sheet.column("to", most=max(12, width // 4))
    sheet.column("", elastic=True)
    for each in found:
        detail = "" if each.detail is None else msgspec.json.encode(each.detail).decode()
        sheet.row(
            at(each.at),
            each.actor,
            each.action,
            each.tenant,
            each.target or "",
            Text(detail, tables.FAINT),
        )
    return sheet.table


async def _show_audit(
    which: dict[str, Any], after: str | None, limit: int, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        page = await queue.app.audit(**which, after=after, limit=limit)
    document = {"entries": page.entries, "after": page.after}
    output.show(document, lambda: _audit_table(page.entries, terminal().width))
    if page.after is not None and not output.as_json:
        say(f"There may be more: --after {page.after}")
