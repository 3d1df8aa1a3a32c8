"""Run the demo from its first job to its last, and check how each job ended."""

from __future__ import annotations

import asyncio
import time

from penstock.app.app import Penstock
from penstock.demo.picture import draw
from penstock.demo.screen import DemoScreen
from penstock.demo.stage import DemoFolder, DemoPlan, PlannedJob, open_app, start_workers
from penstock.demo.summary import DemoSummary, Story
from penstock.demo.tasks import app
from penstock.job import Job

REFRESH_INTERVAL_S = 0.2
TIMEOUT_S = 120.0
JOBS_PER_CALL = 1000


async def run_demo(plan: DemoPlan, folder: DemoFolder, screen: DemoScreen) -> DemoSummary:
    """Enqueue the jobs, let workers run them, show what happens, and return a summary."""
    folder.prepare()
    async with open_app(app, folder):
        planned = list(plan)
        began = time.monotonic()
        jobs = [job.id for job in await app.enqueue_many(job.request for job in planned)]
        seconds = time.monotonic() - began
        story = Story(dict(zip(jobs, [job.request.task for job in planned], strict=True)))
        story.add_line(f"{len(jobs):,} jobs were enqueued in {seconds:.2f} s")
        await _watch(story, plan, folder, screen, crashing=jobs[0])
        expected = _expected_states(jobs, planned)
        summary = DemoSummary(story, await _final_jobs(app, jobs), expected, folder)
    draw(summary, folder.picture)
    return summary


async def _watch(
    story: Story, plan: DemoPlan, folder: DemoFolder, screen: DemoScreen, *, crashing: str
) -> None:
    """Run workers and refresh the screen until all jobs have ended, or two minutes have passed."""
    with screen:
        async with start_workers(app.url, folder, plan.lease, story.record_event):
            while story.pending and story.now < TIMEOUT_S:
                await _refresh(story, crashing)
                screen.show(story)
                await asyncio.sleep(REFRESH_INTERVAL_S)
        story.add_line("all workers have stopped")
        screen.show(story)


async def _refresh(story: Story, crashing: str) -> None:
    """Read the states of the pending jobs, and whether the job that crashed has been rescued."""
    pending = story.pending
    for start in range(0, len(pending), JOBS_PER_CALL):
        statuses = await app.states(pending[start : start + JOBS_PER_CALL])
        story.record_states(statuses.values())
    if story.killed_at is not None and story.rescued_at is None:
        job = await app.get(crashing)
        lost = [error.at for error in job.errors if error.kind == "lost" and error.at is not None]
        if lost:
            story.record_rescue(job, lost[0].timestamp() - story.began)


async def _final_jobs(client: Penstock, ids: list[str]) -> list[Job]:
    """Read these jobs from the database once the demo is over."""
    jobs: list[Job] = []
    after: str | None = None
    known = set(ids)
    while True:
        page = await client.list(after=after, limit=JOBS_PER_CALL)
        jobs += [job for job in page.jobs if job.id in known]
        after = page.after
        if after is None:
            return jobs


def _expected_states(ids: list[str], planned: list[PlannedJob]) -> dict[str, str]:
    return {id_: job.ends_as for id_, job in zip(ids, planned, strict=True)}
