"""`penstock batches`: many jobs as one."""

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
from penstock.cli.bulk import Changed, told_of_rate
from penstock.cli.database import Reached, reached_for, user
from penstock.cli.follow import Course, follow
from penstock.cli.framework import Command, Exit, examples, group, spread
from penstock.cli.options import Timeout, Where, Yes, confirm
from penstock.cli.output import Output, say, terminal
from penstock.cli.tables import ago, at, length, rate
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
    chosen = {"state": None if state is None else state.value, "name": name, "tenant": tenant}
    asyncio.run(_list_page(chosen, where, output, limit, after))


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
    if watch:
        asyncio.run(_wait_for(batch, tenant, where, output, None))
    else:
        asyncio.run(_show_batch(batch, tenant, where, output))


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
    asyncio.run(_wait_for(batch, tenant, where, output, timeout))


@app.command("close", cls=Command)
@examples("penstock batches close 8")
@spread
def close(*, batch: Id, tenant: Tenant = None, where: Where, output: Output) -> None:
    """Let no job be added to a batch any more, such as one whose opener has died."""
    asyncio.run(_close_batch(batch, tenant, where, output))


@app.command("cancel", cls=Command)
@examples("penstock batches cancel 8 --yes")
@spread
def cancel(
    *, batch: Id, yes: Yes = False, tenant: Tenant = None, where: Where, output: Output
) -> None:
    """Close a batch and end all of it that has not ended, running or not."""
    _cancel_batch(batch, tenant, where, output, yes=yes)


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
    asyncio.run(_retry_batch(batch, tenant, where, output, rate))


STATES = {"open": "magenta", "running": "yellow", "finished": "green"}
BAR = 40


def _batches_table(batches: Sequence[BatchStatus], width: int) -> RenderableType:
    """Batches as a table: how far each is, and what it came to."""
    if not batches:
        return tables.nothing("There are no such batches.")
    now = datetime.now(UTC)
    sheet = tables.Sheet(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("done", right=True)
    sheet.column("failed", right=True)
    sheet.column("cancelled", right=True, needed=any(each.cancelled for each in batches))
    sheet.column("running", right=True, above=80)
    sheet.column("rate", right=True, above=80)
    sheet.column("to go", right=True)
    sheet.column("opened", right=True)
    sheet.column("tenant", most=20, above=100, needed=any(each.tenant for each in batches))
    sheet.column("name", elastic=True)
    for each in batches:
        sheet.row(
            each.id,
            _state(each),
            f"{each.done:,}/{each.total:,}",
            _number(each.failed, "bold red"),
            _number(each.cancelled),
            _number(each.running, tables.STATES["running"]),
            _rate(each),
            _to_go(each),
            ago((now - each.created_at).total_seconds()),
            each.tenant,
            each.name or "",
        )
    return sheet.table


def _batch_page(seen: BatchStatus) -> RenderableType:
    """All that is known about a batch, the most wanted first."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=tables.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _named(seen):
        if value is not None and value != "":
            facts.add_row(f"  {name}", value)
    return Group(_title(seen), _bar(seen), facts)


def _title(seen: BatchStatus) -> Text:
    name = (f"  {seen.name}", "bold cyan") if seen.name else ""
    return Text.assemble((f"Batch {seen.id}", "bold"), name, "  ", _state(seen))


def _bar(seen: BatchStatus) -> Table:
    line = Table.grid(padding=(0, 1))
    done = seen.done / seen.total if seen.total else float(seen.is_finished)
    told = f"{seen.done:,} of {seen.total:,}" + (" so far" if seen.state == "open" else "")
    line.add_row(ProgressBar(1.0, done, width=BAR), f"{done:.0%}", told)
    return line


def _named(seen: BatchStatus) -> Iterator[tuple[str, RenderableType | None]]:
    yield "pending", f"{seen.pending:,}, of which {seen.running:,} running"
    yield "completed", f"{seen.completed:,}"
    yield "failed", _number(seen.failed, "bold red") if seen.failed else None
    yield "cancelled", f"{seen.cancelled:,}" if seen.cancelled else None
    if seen.pending:
        yield "rate", _rate(seen)
        yield "to go", _to_go(seen) or "unknown"
    yield "tenant", seen.tenant
    yield "opened", f"{at(seen.created_at)} UTC"
    for name in ("closed", "cancelled", "finished"):
        moment: datetime | None = getattr(seen, f"{name}_at")
        yield name, None if moment is None else f"{at(moment)} UTC"
    for name in ("success", "failure", "end"):
        job: str | None = getattr(seen, f"{name}_job")
        yield f"on {name}", None if job is None else f"job {job}"
    yield "meta", msgspec.json.encode(seen.meta).decode() if seen.meta else None


def _state(seen: BatchStatus) -> Text:
    given_up = " (cancelled)" if seen.cancelled_at is not None else ""
    return Text(seen.state + given_up, STATES[seen.state])


def _number(number: int, colour: str = "") -> Text:
    return Text(f"{number:,}", colour if number else tables.FAINT)


def _rate(seen: BatchStatus) -> str:
    return rate(seen.rate) if seen.pending and seen.rate > 0 else ""


def _to_go(seen: BatchStatus) -> str:
    return length(seen.eta) if seen.pending and seen.eta is not None else ""


async def _list_page(
    chosen: dict[str, Any], where: Where, output: Output, limit: int, after: str | None
) -> None:
    async with reached_for(where, chosen["tenant"]) as queue:
        page = await queue.client.batches(after=after, limit=limit, **chosen)
    output.show(page, lambda: _batches_table(page.batches, terminal().width))
    if page.after and not output.as_json:
        say(f"There may be more: --after {page.after}.")


async def _show_batch(batch: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        seen = await _expected(queue, batch, tenant)
    output.show(seen, lambda: _batch_page(seen))


async def _wait_for(
    batch: str, tenant: str | None, where: Where, output: Output, timeout: float | None
) -> None:
    """Wait with a bar on stderr; the exit code says whether all completed."""
    async with reached_for(where, tenant) as queue:
        await _expected(queue, batch, tenant)
        seen = await _until_finished(queue, batch, timeout)
    output.show(seen, lambda: _batch_page(seen))
    raise typer.Exit(Exit.OK if seen.completed == seen.total else Exit.FAILED)


async def _close_batch(batch: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        await _expected(queue, batch, tenant)
        await queue.client.close_batch(batch, by=user())
        seen = await queue.client.get_batch(batch)
    output.show(
        seen, lambda: f"Batch {batch} is closed, with {counted(seen.pending, 'job')} to go."
    )


def _cancel_batch(
    batch: str, tenant: str | None, where: Where, output: Output, *, yes: bool
) -> None:
    """End what pends, after a question."""
    if not yes:
        seen = asyncio.run(_look_once(batch, tenant, where))
        if seen.closed_at is not None and not seen.pending:
            say(f"Nothing of batch {batch} is pending: there is nothing to cancel.")
            Changed("cancelled").show(output)
        confirm(f"{counted(seen.pending, 'job')} of batch {batch} will be cancelled.")
    Changed("cancelled", asyncio.run(_cancelled(batch, tenant, where))).show(output)


async def _retry_batch(
    batch: str, tenant: str | None, where: Where, output: Output, rate: str | None
) -> None:
    told = Redriven()
    async with reached_for(where, tenant) as queue:
        seen = await _expected(queue, batch, tenant)
        with terminal(stderr=True).status("…") as status:
            async for told in queue.client.redriving(batch=batch, rate=rate, by=user()):
                status.update(f"{counted(told.number, 'job')} retried …")
        changed = Changed("retried", told.number, told.left, due=told.due)
        changed.workflows.update(told.workflows)
        await changed.find_holders(queue.client)
    if not told.number and seen.cancelled and not output.as_json:
        say(
            "Only what failed comes back. For what was cancelled: "
            f"`penstock jobs retry --batch {batch} --state cancelled`."
        )
    changed.show(output, told_of_rate(rate, told.due))


async def _cancelled(batch: str, tenant: str | None, where: Where) -> int:
    number = 0
    async with reached_for(where, tenant) as queue:
        await _expected(queue, batch, tenant)
        with terminal(stderr=True).status("…") as status:
            async for number in queue.client.cancelling_batch(batch, by=user()):
                status.update(f"{counted(number, 'job')} cancelled …")
    return number


async def _look_once(batch: str, tenant: str | None, where: Where) -> BatchStatus:
    async with reached_for(where, tenant) as queue:
        return await _expected(queue, batch, tenant)


async def _expected(queue: Reached, batch: str, tenant: str | None) -> BatchStatus:
    """Of a tenant that is named another's batch is not there, whoever asks."""
    seen = await queue.client.get_batch(batch)
    if tenant is not None and seen.tenant != tenant:
        raise BatchNotFound(batch)
    return seen


async def _until_finished(queue: Reached, batch: str, timeout: float | None) -> BatchStatus:
    async def late(seen: BatchStatus, waited: float) -> BatchTimeout:
        why = await queue.client.why_batch(batch)
        return BatchTimeout(batch, seen.state, seen.pending, waited, why)

    course = Course(
        "Batch",
        batch,
        look=lambda: queue.client.get_batch(batch),
        is_over=lambda seen: seen.is_finished,
        draw=_batch_page,
        late=late,
    )
    return await follow(queue, course, timeout)
