"""What `penstock jobs list` does."""

from __future__ import annotations

from penstock.cli.filters import Filter
from penstock.cli.opening import reached
from penstock.cli.output import Output, draw, print_json, say, terminal
from penstock.cli.screens.jobs import jobs_table
from penstock.cli.where import Where
from penstock.job import Job


async def list_page(
    filter: Filter, where: Where, output: Output, limit: int, after: str | None
) -> None:
    """One page, and how to come to the next."""
    async with reached(where) as queue:
        jobs, following = await anext(filter.pages(queue, after=after, size=limit))
    output.show({"jobs": jobs, "after": following}, lambda: jobs_table(jobs, terminal().width))
    if following and not output.as_json:
        say(f"There may be more: --after {following}, or --all.")


async def list_all(filter: Filter, where: Where, output: Output, after: str | None) -> None:
    """All pages: as one document, or as one table after the other."""
    found: list[Job] = []
    async with reached(where) as queue:
        async for jobs, _ in filter.pages(queue, after=after):
            if output.as_json:
                found += jobs
            elif jobs:
                draw(jobs_table(jobs, terminal().width))
    if output.as_json:
        print_json({"jobs": found, "after": None})
