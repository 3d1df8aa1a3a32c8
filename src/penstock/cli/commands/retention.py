"""`penstock retention`: for how long ended jobs are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import current_user, open_queue
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions
from penstock.cli.output import Output, terminal
from penstock.cli.settings import read_queue_names, require_set, warn_of_unknown_queue
from penstock.groups.settings import Retention
from penstock.job import State

MAX_DAYS = 400

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


def parse_days(text: str | int) -> int:
    """Parse a number of days: `90` or `90d`."""
    try:
        days = int(str(text).lower().removesuffix("d"))
    except ValueError:
        days = -1
    if not 0 <= days <= MAX_DAYS:
        raise typer.BadParameter(
            f"{text!r} is not a whole number of days from 0 to {MAX_DAYS}; write 90 or 90d"
        )
    return days


@app.command("list", cls=Command)
@examples("penstock retention list")
@expand_options
def list_retentions(db: DatabaseOptions, output: Output) -> None:
    """List the rules, the general ones first; without any it is 7 days, and 30 for failed jobs."""
    asyncio.run(_show_retentions(db, output))


@app.command("set", cls=Command)
@examples("penstock retention set failed 90 --queue documents --tenant acme")
@expand_options
def set_retention(
    *,
    state: RetentionState,
    days: Annotated[
        int,
        typer.Argument(
            parser=parse_days, metavar="DAYS", help=f"For how many days, 0 to {MAX_DAYS}."
        ),
    ],
    queue: Queue = "",
    tenant: Tenant = "",
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Keep jobs that end in a state, from now on, for so many days.

    A tenant's rule comes before a queue's, and one for both before either.
    """
    asyncio.run(_set_retention(state.value, days, queue, tenant, db, output))


@app.command("remove", cls=Command)
@examples("penstock retention remove completed --queue mail")
@expand_options
def remove_retention(
    *,
    state: RetentionState,
    queue: Queue = "",
    tenant: Tenant = "",
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Take a rule away: the next wider one holds then."""
    asyncio.run(_remove_retention(state.value, queue, tenant, db, output))


def _retention_sentence(rule: Retention) -> str:
    days = f"{rule.days} day{'' if rule.days == 1 else 's'}"
    jobs = _describe_jobs(rule.state, rule.queue, rule.tenant)
    return f"{jobs[0].upper()}{jobs[1:]} are kept for {days} from now on."


def _describe_jobs(state: State, queue: str, tenant: str) -> str:
    """Name the jobs that a rule applies to."""
    owners = [f"the queue {queue}"] if queue else []
    owners += [f"the tenant {tenant}"] if tenant else []
    return f"{state} jobs{' of ' if owners else ''}{' and '.join(owners)}"


def _retentions_table(rules: Sequence[Retention], width: int) -> RenderableType:
    if not rules:
        return tables.empty_text("No rule is set: failed jobs are kept for 30 days, others for 7.")
    builder = tables.TableBuilder(width, fills=False)
    builder.column("state")
    builder.column("queue", max_width=max(16, width // 3))
    builder.column("tenant", max_width=max(16, width // 3))
    builder.column("days", align_right=True)
    for rule in rules:
        names = [
            Text(name) if name else Text("any", tables.FAINT) for name in (rule.queue, rule.tenant)
        ]
        builder.row(tables.state_text(rule.state), *names, f"{rule.days}")
    return builder.table


async def _show_retentions(db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        rules = await queue.app.retentions()
    output.show({"retentions": rules}, lambda: _retentions_table(rules, terminal().width))


async def _set_retention(
    state: State, days: int, name: str, tenant: str, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue(db) as queue:
        known = await read_queue_names(queue)
        rule = await queue.app.set_retention(
            state, days, queue=name, tenant=tenant, by=current_user()
        )
    if name:
        warn_of_unknown_queue(name, known)
    output.show(rule, lambda: _retention_sentence(rule))


async def _remove_retention(
    state: State, name: str, tenant: str, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue(db) as queue:
        removed = await queue.app.remove_retention(
            state, queue=name, tenant=tenant, by=current_user()
        )
    jobs = _describe_jobs(state, name, tenant)
    require_set(removed, f"No rule is set for {jobs}.")
    document = {"state": state, "queue": name, "tenant": tenant, "removed": True}
    output.show(document, lambda: f"No rule is set for {jobs} any more.")
