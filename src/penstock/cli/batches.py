"""`penstock batches`: many jobs as one."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import Timeout
from penstock.cli.jobs import Yes
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group(
    "batches",
    help="Look at batches, wait for them, close, cancel or retry them. "
    "`penstock jobs list --batch ID` has the jobs of one.",
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The batch.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's.", show_default=False)]


class BatchStateName(StrEnum):
    open = "open"
    running = "running"
    finished = "finished"


@app.command("list", cls=Command)
@examples("penstock batches list --state running", "penstock batches list --name import --json")
@spread
def list_batches(
    *,
    state: Annotated[
        BatchStateName | None, typer.Option(help="Those in this state.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Those of this name.", show_default=False)
    ] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Those older than this batch.", show_default=False),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """List batches, newest first: how far each is, at what rate, and for how long still."""
    from penstock.cli.batching import list_page

    chosen = {"state": None if state is None else state.value, "name": name, "tenant": tenant}
    asyncio.run(list_page(chosen, where, output, limit, after))


@app.command("show", cls=Command)
@examples("penstock batches show 7", "penstock batches show 7 --watch")
@spread
def show(
    *,
    batch: Id,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on until it is finished.")
    ] = False,
    tenant: Tenant = None,
    where: Where,
    output: Output,
) -> None:
    """Show a batch: a bar, its counts, its rate, when it will be done, its callbacks.

    With --watch the exit code is 5 unless all of it completed.
    """
    from penstock.cli.batching import show_batch, wait_for

    if watch:
        asyncio.run(wait_for(batch, tenant, where, output, None))
    else:
        asyncio.run(show_batch(batch, tenant, where, output))


@app.command("wait", cls=Command)
@examples("penstock batches wait 7 --timeout 30s")
@spread
def wait(
    *,
    batch: Id,
    timeout: Timeout = None,
    tenant: Tenant = None,
    where: Where,
    output: Output,
) -> None:
    """Wait until a batch is finished; the exit code is 5 unless all of it completed."""
    from penstock.cli.batching import wait_for

    asyncio.run(wait_for(batch, tenant, where, output, timeout))


@app.command("close", cls=Command)
@examples("penstock batches close 8")
@spread
def close(*, batch: Id, tenant: Tenant = None, where: Where, output: Output) -> None:
    """Let no job be added to a batch any more, such as one whose opener has died."""
    from penstock.cli.batching import close_batch

    asyncio.run(close_batch(batch, tenant, where, output))


@app.command("cancel", cls=Command)
@examples("penstock batches cancel 8 --yes")
@spread
def cancel(
    *, batch: Id, yes: Yes = False, tenant: Tenant = None, where: Where, output: Output
) -> None:
    """Close a batch and end all of it that has not ended, running or not."""
    from penstock.cli.batching import cancel_batch

    cancel_batch(batch, tenant, where, output, yes=yes)


@app.command("retry", cls=Command)
@examples("penstock batches retry 7", "penstock batches retry 7 --rate 10/s")
@spread
def retry(
    *,
    batch: Id,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="How many come back in a time: 10/s, 500/min; all at once, if not given.",
            show_default=False,
        ),
    ] = None,
    tenant: Tenant = None,
    where: Where,
    output: Output,
) -> None:
    """Run those jobs of a batch again that have failed; no others."""
    from penstock.cli.batching import retry_batch

    asyncio.run(retry_batch(batch, tenant, where, output, rate))
