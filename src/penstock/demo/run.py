"""The demo from the first job to the last, and the count of them afterwards."""

from __future__ import annotations

import asyncio
import time

from penstock.app.app import Penstock
from penstock.demo.picture import draw
from penstock.demo.screen import Screen
from penstock.demo.stage import Folder, Plan, Planned, crew, opened
from penstock.demo.summary import Ended, Story
from penstock.demo.tasks import app
from penstock.job import Job

LOOK = 0.2
PATIENCE = 120.0
AT_ONCE = 1000


async def run_demo(plan: Plan, folder: Folder, screen: Screen) -> Ended:
    """Enqueue the jobs, let workers run them, watch, and count what became of each."""
    folder.prepare()
    async with opened(app, folder):
        planned = list(plan)
        began = time.monotonic()
        jobs = [job.id for job in await app.enqueue_many(one.request for one in planned)]
        took = time.monotonic() - began
        story = Story(dict(zip(jobs, [one.request.task for one in planned], strict=True)))
        story.say(f"{len(jobs):,} jobs were enqueued in {took:.2f} s")
        await _watch(story, plan, folder, screen, crashing=jobs[0])
        ended = Ended(story, await _final_jobs(app, jobs), _expected(jobs, planned), folder)
    draw(ended, folder.picture)
    return ended


async def _watch(
    story: Story, plan: Plan, folder: Folder, screen: Screen, *, crashing: str
) -> None:
    """Show how the jobs fare until all have ended, or it takes too long."""
    with screen:
        async with crew(app.url, folder, plan.lease, story.process):
            while story.pending and story.now < PATIENCE:
                await _look(story, crashing)
                screen.show(story)
                await asyncio.sleep(LOOK)
        story.say("all workers have stopped")
        screen.show(story)


async def _look(story: Story, crashing: str) -> None:
    pending = story.pending
    for start in range(0, len(pending), AT_ONCE):
        statuses = await app.states(pending[start : start + AT_ONCE])
        story.saw(statuses.values())
    if story.killed_at is not None and story.rescued_at is None:
        job = await app.get(crashing)
        lost = [error.at for error in job.errors if error.kind == "lost" and error.at is not None]
        if lost:
            story.rescue(job, lost[0].timestamp() - story.began)


async def _final_jobs(client: Penstock, jobs: list[str]) -> list[Job]:
    """What the database has of these jobs now."""
    found: list[Job] = []
    after: str | None = None
    wanted = set(jobs)
    while True:
        page = await client.list(after=after, limit=AT_ONCE)
        found += [job for job in page.jobs if job.id in wanted]
        after = page.after
        if after is None:
            return found


def _expected(jobs: list[str], planned: list[Planned]) -> dict[str, str]:
    return {job: one.ends_as for job, one in zip(jobs, planned, strict=True)}
