"""`penstock batches`: read batches, wait for them, close, cancel or retry them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli import tables
from penstock.cli.bulk import ChangeResult, describe_rate
from penstock.cli.database import OpenQueue, current_user, open_queue_for
from penstock.cli.follow import Followed, follow
from penstock.cli.framework import Command, Exit, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, Timeout, Yes, confirm
from penstock.cli.output import Output, say, terminal
from penstock.cli.tables import format_age, format_duration, format_rate, format_time
from penstock.errors import BatchNotFound, BatchTimeout
from penstock.groups.batches import BatchStatus
from penstock.groups.failed import Redriven
from penstock.wording import counted

app = group(
    "batches",
    help="Look at batches, wait for them, close, cancel or retry them. "
    "`penstock jobs list --batch ID` has the jobs of one.",
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The batch.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's.", show_default=False)]

STATE_COLOURS = {"open": "magenta", "running": "yellow", "finished": "green"}
BAR_WIDTH = 40


class BatchStateName(StrEnum):
    open = "open"
    running = "running"
    finished = "finished"


@app.command("list", cls=Command)
@examples("penstock batches list --state running", "penstock batches list --name import --json")
@expand_options
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
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List batches, newest first: how far each is, at what rate, and for how long still."""
    filters = {"state": None if state is None else state.value, "name": name, "tenant": tenant}
    asyncio.run(_list_page(filters, db, output, limit, after))


@app.command("show", cls=Command)
@examples("penstock batches show 7", "penstock batches show 7 --watch")
@expand_options
def show(
    *,
    batch: Id,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on until it is finished.")
    ] = False,
    tenant: Tenant = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Show a batch: a bar, its counts, its rate, when it will be done, its callbacks.

    With --watch the exit code is 5 unless all of it completed.
    """
    if watch:
        asyncio.run(_wait(batch, tenant, db, output, None))
    else:
        asyncio.run(_show_batch(batch, tenant, db, output))


@app.command("wait", cls=Command)
@examples("penstock batches wait 7 --timeout 30s")
@expand_options
def wait(
    *,
    batch: Id,
    timeout: Timeout = None,
    tenant: Tenant = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Wait until a batch is finished; the exit code is 5 unless all of it completed."""
    asyncio.run(_wait(batch, tenant, db, output, timeout))


@app.command("close", cls=Command)
@examples("penstock batches close 8")
@expand_options
def close(*, batch: Id, tenant: Tenant = None, db: DatabaseOptions, output: Output) -> None:
    """Let no job be added to a batch any more, such as one whose opener has died."""
    asyncio.run(_close_batch(batch, tenant, db, output))


@app.command("cancel", cls=Command)
@examples("penstock batches cancel 8 --yes")
@expand_options
def cancel(
    *, batch: Id, yes: Yes = False, tenant: Tenant = None, db: DatabaseOptions, output: Output
) -> None:
    """Close a batch and end all of it that has not ended, running or not."""
    _cancel_batch(batch, tenant, db, output, yes=yes)


@app.command("retry", cls=Command)
@examples("penstock batches retry 7", "penstock batches retry 7 --rate 10/s")
@expand_options
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
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Run those jobs of a batch again that have failed; no others."""
    asyncio.run(_retry_batch(batch, tenant, db, output, rate))


def _batches_table(batches: Sequence[BatchStatus], width: int) -> RenderableType:
    """Return batches as a table: the progress of each, and its failures."""
    if not batches:
        return tables.empty_text("There are no such batches.")
    now = datetime.now(UTC)
    builder = tables.TableBuilder(width)
    builder.column("id")
    builder.column("state")
    builder.column("done", align_right=True)
    builder.column("failed", align_right=True)
    builder.column("cancelled", align_right=True, needed=any(batch.cancelled for batch in batches))
    builder.column("running", align_right=True, wider_than=80)
    builder.column("rate", align_right=True, wider_than=80)
    builder.column("to go", align_right=True)
    builder.column("opened", align_right=True)
    builder.column(
        "tenant", max_width=20, wider_than=100, needed=any(batch.tenant for batch in batches)
    )
    builder.column("name", elastic=True)
    for batch in batches:
        builder.row(
            batch.id,
            _state_text(batch),
            f"{batch.done:,}/{batch.total:,}",
            _number_text(batch.failed, "bold red"),
            _number_text(batch.cancelled),
            _number_text(batch.running, tables.STATE_COLOURS["running"]),
            _rate_text(batch),
            _eta_text(batch),
            format_age((now - batch.created_at).total_seconds()),
            batch.tenant,
            batch.name or "",
        )
    return builder.table


def _batch_page(batch: BatchStatus) -> RenderableType:
    """Return a page about a batch: a title, a progress bar, and its counts and times."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=tables.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _fact_rows(batch):
        if value is not None and value != "":
            facts.add_row(f"  {name}", value)
    return Group(_title(batch), _bar(batch), facts)


def _title(batch: BatchStatus) -> Text:
    name = (f"  {batch.name}", "bold cyan") if batch.name else ""
    return Text.assemble((f"Batch {batch.id}", "bold"), name, "  ", _state_text(batch))


def _bar(batch: BatchStatus) -> Table:
    grid = Table.grid(padding=(0, 1))
    done = batch.done / batch.total if batch.total else float(batch.is_finished)
    progress = f"{batch.done:,} of {batch.total:,}" + (" so far" if batch.state == "open" else "")
    grid.add_row(ProgressBar(1.0, done, width=BAR_WIDTH), f"{done:.0%}", progress)
    return grid


def _fact_rows(batch: BatchStatus) -> Iterator[tuple[str, RenderableType | None]]:
    yield "pending", f"{batch.pending:,}, of which {batch.running:,} running"
    yield "completed", f"{batch.completed:,}"
    yield "failed", _number_text(batch.failed, "bold red") if batch.failed else None
    yield "cancelled", f"{batch.cancelled:,}" if batch.cancelled else None
    if batch.pending:
        yield "rate", _rate_text(batch)
        yield "to go", _eta_text(batch) or "unknown"
    yield "tenant", batch.tenant
    yield "opened", f"{format_time(batch.created_at)} UTC"
    for name in ("closed", "cancelled", "finished"):
        time: datetime | None = getattr(batch, f"{name}_at")
        yield name, None if time is None else f"{format_time(time)} UTC"
    for name in ("success", "failure", "end"):
        job: str | None = getattr(batch, f"{name}_job")
        yield f"on {name}", None if job is None else f"job {job}"
    yield "meta", msgspec.json.encode(batch.meta).decode() if batch.meta else None


def _state_text(batch: BatchStatus) -> Text:
    suffix = " (cancelled)" if batch.cancelled_at is not None else ""
    return Text(batch.state + suffix, STATE_COLOURS[batch.state])


def _number_text(number: int, colour: str = "") -> Text:
    return Text(f"{number:,}", colour if number else tables.FAINT)


def _rate_text(batch: BatchStatus) -> str:
    return format_rate(batch.rate) if batch.pending and batch.rate > 0 else ""


def _eta_text(batch: BatchStatus) -> str:
    return format_duration(batch.eta) if batch.pending and batch.eta is not None else ""


async def _list_page(
    filters: dict[str, Any], db: DatabaseOptions, output: Output, limit: int, after: str | None
) -> None:
    async with open_queue_for(db, filters["tenant"]) as queue:
        page = await queue.client.batches(after=after, limit=limit, **filters)
    output.show(page, lambda: _batches_table(page.batches, terminal().width))
    if page.after and not output.as_json:
        say(f"There may be more: --after {page.after}.")


async def _show_batch(batch: str, tenant: str | None, db: DatabaseOptions, output: Output) -> None:
    async with open_queue_for(db, tenant) as queue:
        status = await _get_batch(queue, batch, tenant)
    output.show(status, lambda: _batch_page(status))


async def _wait(
    batch: str, tenant: str | None, db: DatabaseOptions, output: Output, timeout: float | None
) -> None:
    """Wait until a batch is finished, and exit with `FAILED` unless all of its jobs completed."""
    async with open_queue_for(db, tenant) as queue:
        await _get_batch(queue, batch, tenant)
        status = await _follow_batch(queue, batch, timeout)
    output.show(status, lambda: _batch_page(status))
    raise typer.Exit(Exit.OK if status.completed == status.total else Exit.FAILED)


async def _close_batch(batch: str, tenant: str | None, db: DatabaseOptions, output: Output) -> None:
    async with open_queue_for(db, tenant) as queue:
        await _get_batch(queue, batch, tenant)
        await queue.client.close_batch(batch, by=current_user())
        status = await queue.client.get_batch(batch)
    output.show(
        status, lambda: f"Batch {batch} is closed, with {counted(status.pending, 'job')} to go."
    )


def _cancel_batch(
    batch: str, tenant: str | None, db: DatabaseOptions, output: Output, *, yes: bool
) -> None:
    """Cancel the pending jobs of a batch. Without `yes`, ask the user first."""
    if not yes:
        status = asyncio.run(_read_batch(batch, tenant, db))
        if status.closed_at is not None and not status.pending:
            say(f"No job of batch {batch} is pending, so there is nothing to cancel.")
            ChangeResult("cancelled").show(output)
        confirm(f"{counted(status.pending, 'job')} of batch {batch} will be cancelled.")
    ChangeResult("cancelled", asyncio.run(_cancel_all(batch, tenant, db))).show(output)


async def _retry_batch(
    batch: str, tenant: str | None, db: DatabaseOptions, output: Output, rate: str | None
) -> None:
    progress = Redriven()
    async with open_queue_for(db, tenant) as queue:
        batch_status = await _get_batch(queue, batch, tenant)
        with terminal(stderr=True).status("…") as status:
            async for progress in queue.client.redriving(batch=batch, rate=rate, by=current_user()):
                status.update(f"{counted(progress.number, 'job')} retried …")
        changed = ChangeResult("retried", progress.number, progress.left, due=progress.due)
        changed.workflows.update(progress.workflows)
        await changed.find_holders(queue.client)
    if not progress.number and batch_status.cancelled and not output.as_json:
        say(
            "Only failed jobs are retried. To retry the cancelled ones: `penstock jobs retry "
            f"--batch {batch} --state cancelled`."
        )
    changed.show(output, describe_rate(rate, progress.due))


async def _cancel_all(batch: str, tenant: str | None, db: DatabaseOptions) -> int:
    number = 0
    async with open_queue_for(db, tenant) as queue:
        await _get_batch(queue, batch, tenant)
        with terminal(stderr=True).status("…") as status:
            async for number in queue.client.cancelling_batch(batch, by=current_user()):
                status.update(f"{counted(number, 'job')} cancelled …")
    return number


async def _read_batch(batch: str, tenant: str | None, db: DatabaseOptions) -> BatchStatus:
    async with open_queue_for(db, tenant) as queue:
        return await _get_batch(queue, batch, tenant)


async def _get_batch(queue: OpenQueue, batch: str, tenant: str | None) -> BatchStatus:
    """Return the batch; raise `BatchNotFound` if it belongs to another tenant."""
    status = await queue.client.get_batch(batch)
    if tenant is not None and status.tenant != tenant:
        raise BatchNotFound(batch)
    return status


async def _follow_batch(queue: OpenQueue, batch: str, timeout: float | None) -> BatchStatus:
    async def timeout_error(status: BatchStatus, waited: float) -> BatchTimeout:
        why = await queue.client.why_batch(batch)
        return BatchTimeout(batch, status.state, status.pending, waited, why)

    followed = Followed(
        "Batch",
        batch,
        read=lambda: queue.client.get_batch(batch),
        is_over=lambda status: status.is_finished,
        draw=_batch_page,
        timeout_error=timeout_error,
    )
    return await follow(queue, followed, timeout)
