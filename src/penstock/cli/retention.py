"""`penstock retention`: how long jobs that have ended are kept."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

MOST_DAYS = 400

app = group("retention", help="Look at how long ended jobs are kept, and change it.")


class FinalState(StrEnum):
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"


State = Annotated[FinalState, typer.Argument(metavar="STATE", help="The state they ended in.")]
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
    from penstock.cli.tuning import show_retentions

    asyncio.run(show_retentions(where, output))


@app.command("set", cls=Command)
@examples("penstock retention set failed 90 --queue documents --tenant acme")
@spread
def set_retention(
    *,
    state: State,
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
    from penstock.cli.tuning import change_retention

    asyncio.run(change_retention(state.value, days, queue, tenant, where, output))


@app.command("remove", cls=Command)
@examples("penstock retention remove completed --queue mail")
@spread
def remove_retention(
    *, state: State, queue: Queue = "", tenant: Tenant = "", where: Where, output: Output
) -> None:
    """Take a rule away: the next wider one holds then."""
    from penstock.cli.tuning import remove_retention

    asyncio.run(remove_retention(state.value, queue, tenant, where, output))
