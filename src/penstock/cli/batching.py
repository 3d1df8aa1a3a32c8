"""What `penstock batches` does."""

from __future__ import annotations

import asyncio
from typing import Any

import typer

from penstock.cli.changed import Changed, told_of_rate
from penstock.cli.confirm import confirm
from penstock.cli.exits import Exit
from penstock.cli.following import Course, follow
from penstock.cli.given import user
from penstock.cli.opening import Reached, reached_for
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.batches import batch_page, batches_table
from penstock.cli.where import Where
from penstock.errors import BatchNotFound, BatchTimeout
from penstock.groups.batches import BatchStatus
from penstock.groups.failed import Redriven
from penstock.wording import counted


async def list_page(
    chosen: dict[str, Any], where: Where, output: Output, limit: int, after: str | None
) -> None:
    async with reached_for(where, chosen["tenant"]) as queue:
        page = await queue.client.batches(after=after, limit=limit, **chosen)
    output.show(page, lambda: batches_table(page.batches, terminal().width))
    if page.after and not output.as_json:
        say(f"There may be more: --after {page.after}.")


async def show_batch(batch: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        seen = await _expected(queue, batch, tenant)
    output.show(seen, lambda: batch_page(seen))


async def wait_for(
    batch: str, tenant: str | None, where: Where, output: Output, timeout: float | None
) -> None:
    """Wait with a bar on stderr; the exit code says whether all completed."""
    async with reached_for(where, tenant) as queue:
        await _expected(queue, batch, tenant)
        seen = await _until_finished(queue, batch, timeout)
    output.show(seen, lambda: batch_page(seen))
    raise typer.Exit(Exit.OK if seen.completed == seen.total else Exit.FAILED)


async def close_batch(batch: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        await _expected(queue, batch, tenant)
        await queue.client.close_batch(batch, by=user())
        seen = await queue.client.get_batch(batch)
    output.show(
        seen, lambda: f"Batch {batch} is closed, with {counted(seen.pending, 'job')} to go."
    )


def cancel_batch(
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


async def retry_batch(
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
        draw=batch_page,
        late=late,
    )
    return await follow(queue, course, timeout)
