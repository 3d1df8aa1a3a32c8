"""`penstock retention`: how long jobs that have ended are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import reached, user
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import Where
from penstock.cli.output import Output, terminal
from penstock.cli.settings import expect_set, known_queues, warn_of_unknown
from penstock.groups.settings import Retention
from penstock.job import State

MOST_DAYS = 400

app = group("retention", help="Look at how long ended jobs are kept, and change it.")


class FinalState(StrEnum):
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"


RetentionState = Annotated[
    FinalState, typer.Argument(metavar="STATE", help="The state they ended in.")
]
Queue = Annotated[str, typer.Option(help="Jobs of this queue alone.", show_default=False)]
Tenant = Annotated[str, typer.Option(help="Jobs of this tenant alone.", show_default=False)]


def whole_days(text: str | int) -> int:
    """A number of days, as `90` or `90d`."""
    try:
        days = int(str(text).lower().removesuffix("d"))
    except ValueError:
        days = -1
    if not 0 <= days <= MOST_DAYS:
        raise typer.BadParameter(
            f"{text!r} is no whole number of days from 0 to {MOST_DAYS}; write 90 or 90d"
        )
    return days


@app.command("list", cls=Command)
@examples("penstock retention list")
@spread
def list_retentions(where: Where, output: Output) -> None:
    """List the rules, the general ones first; without any it is 7 days, and 30 for failed jobs."""
    asyncio.run(_show_retentions(where, output))


@app.command("set", cls=Command)
@examples("penstock retention set failed 90 --queue documents --tenant acme")
@spread
def set_retention(
    *,
    state: RetentionState,
    days: Annotated[
        int,
        typer.Argument(
            parser=whole_days, metavar="DAYS", help=f"For how many days, 0 to {MOST_DAYS}."
        ),
    ],
    queue: Queue = "",
    tenant: Tenant = "",
    where: Where,
    output: Output,
) -> None:
    """Keep jobs that end in a state, from now on, for so many days.

    A tenant's rule comes before a queue's, and one for both before either.
    """
    asyncio.run(_set_retention(state.value, days, queue, tenant, where, output))


@app.command("remove", cls=Command)
@examples("penstock retention remove completed --queue mail")
@spread
def remove_retention(
    *, state: RetentionState, queue: Queue = "", tenant: Tenant = "", where: Where, output: Output
) -> None:
    """Take a rule away: the next wider one holds then."""
    asyncio.run(_remove_retention(state.value, queue, tenant, where, output))


def _retention_sentence(found: Retention) -> str:
    days = f"{found.days} day{'' if found.days == 1 else 's'}"
    jobs = _whose(found.state, found.queue, found.tenant)
    return f"{jobs[0].upper()}{jobs[1:]} are kept for {days} from now on."


def _whose(state: State, queue: str, tenant: str) -> str:
    """The jobs that a rule is for."""
    of = [f"the queue {queue}"] if queue else []
    of += [f"the tenant {tenant}"] if tenant else []
    return f"{state} jobs{' of ' if of else ''}{' and '.join(of)}"


def _retentions_table(rules: Sequence[Retention], width: int) -> RenderableType:
    if not rules:
        return tables.nothing("No rule is set: failed jobs are kept for 30 days, others for 7.")
    sheet = tables.Sheet(width, fills=False)
    sheet.column("state")
    sheet.column("queue", most=max(16, width // 3))
    sheet.column("tenant", most=max(16, width // 3))
    sheet.column("days", right=True)
    for each in rules:
        names = [
            Text(name) if name else Text("any", tables.FAINT) for name in (each.queue, each.tenant)
        ]
        sheet.row(tables.state(each.state), *names, f"{each.days}")
    return sheet.table


async def _show_retentions(where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.retentions()
    output.show({"retentions": found}, lambda: _retentions_table(found, terminal().width))


async def _set_retention(
    state: State, days: int, name: str, tenant: str, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        known = await known_queues(queue)
        found = await queue.app.set_retention(state, days, queue=name, tenant=tenant, by=user())
    if name:
        warn_of_unknown(name, known)
    output.show(found, lambda: _retention_sentence(found))


async def _remove_retention(
    state: State, name: str, tenant: str, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_retention(state, queue=name, tenant=tenant, by=user())
    whose = _whose(state, name, tenant)
    expect_set(removed, f"No rule is set for {whose}.")
    document = {"state": state, "queue": name, "tenant": tenant, "removed": True}
    output.show(document, lambda: f"No rule is set for {whose} any more.")
