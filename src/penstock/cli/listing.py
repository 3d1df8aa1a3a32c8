"""What `penstock jobs list` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.cli.filters import Filter
from penstock.cli.opening import Reached, reached_for
from penstock.cli.output import Output, draw, print_json, say, terminal
from penstock.cli.screens.jobs import jobs_table
from penstock.cli.where import Where
from penstock.job import Job


async def list_page(
    filter: Filter, where: Where, output: Output, limit: int, after: str | None
) -> None:
    """One page, and how to come to the next."""
    async with reached_for(where, filter.tenant) as queue:
        jobs, following = await anext(filter.pages(queue, after=after, size=limit))
        if not jobs:
            await _expect(filter, queue)
        late = await queue.insights.lateness(jobs)
    document = {"jobs": _documents(jobs, late), "after": following}
    output.show(document, lambda: jobs_table(jobs, terminal().width, late))
    if following and not output.as_json:
        say(f"There may be more: --after {following}, or --all.")


async def list_all(filter: Filter, where: Where, output: Output, after: str | None) -> None:
    """All pages: as one document, or as one table after the other."""
    found: list[dict[str, Any]] = []
    async with reached_for(where, filter.tenant) as queue:
        async for jobs, _ in filter.pages(queue, after=after):
            if not jobs:
                await _expect(filter, queue)
            late = await queue.insights.lateness(jobs)
            if output.as_json:
                found += _documents(jobs, late)
            elif jobs:
                draw(jobs_table(jobs, terminal().width, late))
    if output.as_json:
        print_json({"jobs": found, "after": None})


async def list_late(filter: Filter, where: Where, output: Output, limit: int) -> None:
    """Those past their soft deadline, the latest first."""
    async with reached_for(where, filter.tenant) as queue:
        # One more than are shown, to see whether there are more.
        found = await queue.insights.late(
            limit + 1,
            states=filter.state,
            queue=filter.queue,
            task=filter.task,
            tenant=filter.tenant,
            subject=filter.subject,
            tag=filter.tag,
        )
    more = len(found) > limit
    jobs = [job for job, _ in found[:limit]]
    late = {job.id: seconds for job, seconds in found}
    document = {"jobs": _documents(jobs, late), "after": None, "more": more}
    output.show(document, lambda: jobs_table(jobs, terminal().width, late))
    if more and not output.as_json:
        say("There are more that are late: --limit shows more of them.")


async def _expect(filter: Filter, queue: Reached) -> None:
    """The batch and the workflow that are named must be there, or no job can be of them."""
    if filter.batch is not None:
        await queue.client.get_batch(filter.batch)
    if filter.workflow is not None:
        await queue.client.get_workflow(filter.workflow)


def _documents(jobs: Sequence[Job], late: Mapping[str, float]) -> list[dict[str, Any]]:
    """Jobs for programs: their own fields, and by how many seconds each is late."""
    return [msgspec.to_builtins(job) | {"late": late.get(job.id)} for job in jobs]
