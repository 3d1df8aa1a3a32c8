"""`penstock dead`: jobs that have failed."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.jobs import DryRun, Ids, Yes
from penstock.cli.letters import Letters
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group(
    "dead",
    help="Look at jobs that failed, bring them back or erase them. "
    "`penstock jobs show ID` has all attempts of one.",
)

Limit = Annotated[
    int | None,
    typer.Option(min=1, help="How many at most, the longest dead first.", show_default=False),
]
Everything = Annotated[bool, typer.Option("--all", help="All that have failed.")]


@app.command("list", cls=Command)
@examples(
    "penstock dead list --task shop.fail --error ValueError --since 2h",
    "penstock dead list --queue mail --all --json",
)
@spread
def list_dead(
    *,
    letters: Letters,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="Those behind this place.", show_default=False),
    ] = None,
    all_pages: Annotated[bool, typer.Option("--all", help="All of them, page by page.")] = False,
    where: Where,
    output: Output,
) -> None:
    """List dead letters, those that failed last first: why, when, after how many attempts."""
    from penstock.cli.redriving import list_letters

    asyncio.run(list_letters(letters, where, output, limit, after, all_pages=all_pages))


@app.command("summary", cls=Command)
@examples("penstock dead summary --since 1d")
@spread
def summary(
    *,
    letters: Letters,
    among: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How many to look at, the latest first.")
    ] = 10_000,
    where: Where,
    output: Output,
) -> None:
    """Count dead letters by task, reason and type of error, with an example of each."""
    from penstock.cli.redriving import summarise

    asyncio.run(summarise(letters, where, output, among))


@app.command("redrive", cls=Command)
@examples(
    "penstock dead redrive 42",
    "penstock dead redrive --task shop.fail --error ValueError --dry-run",
    "penstock dead redrive --queue mail --rate 10/s --yes",
)
@spread
def redrive(
    *,
    ids: Ids = None,
    letters: Letters,
    everything: Everything = False,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="How many come back in a time: 10/s, 500/min; all at once, if not given.",
            show_default=False,
        ),
    ] = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    where: Where,
    output: Output,
) -> None:
    """Run failed jobs again, under their ids and with fresh chances; the longest dead first.

    At a rate they come back scheduled, one after the other, and nobody needs to stay for it. What
    fails after the command began is not caught by it.
    """
    from penstock.cli import redriving
    from penstock.cli.wanted import Wanted

    wanted = Wanted.of(ids, letters, limit, everything=everything, rate=rate)
    redriving.redrive(wanted, where, output, dry_run=dry_run, yes=yes)


@app.command("purge", cls=Command)
@examples(
    "penstock dead purge --reason discarded --until 7d --dry-run",
    "penstock dead purge --tenant acme --yes",
)
@spread
def purge(
    *,
    ids: Ids = None,
    letters: Letters,
    everything: Everything = False,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    where: Where,
    output: Output,
) -> None:
    """Erase failed jobs with all that is kept about them."""
    from penstock.cli import redriving
    from penstock.cli.wanted import Wanted

    wanted = Wanted.of(ids, letters, limit, everything=everything)
    redriving.purge(wanted, where, output, dry_run=dry_run, yes=yes)
