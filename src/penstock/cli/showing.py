"""What `penstock jobs show` does: a job as it is, or until it has ended."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

from penstock.cli.exits import Exit
from penstock.cli.following import Course, follow
from penstock.cli.opening import Reached, reached_for
from penstock.cli.output import Output, say
from penstock.cli.screens.job import job_page
from penstock.cli.where import Where
from penstock.errors import JobNotFound, WaitTimeout
from penstock.insights import JobInsight
from penstock.job import COMPLETED


def document(seen: JobInsight) -> dict[str, Any]:
    """One job for programs: its own fields, and beside them what explains them."""
    job: dict[str, Any] = msgspec.to_builtins(seen.job)
    return job | {
        "worker": seen.place.worker,
        "progress": seen.place.progress,
        "late_after": seen.place.late_after,
        "late": seen.place.late,
        "turn": seen.turn,
        "waits": seen.waits,
        "timeline": seen.timeline,
        "steps": seen.steps,
        "held_by": None if seen.holder is None else seen.holder._asdict(),
    }


def show(seen: JobInsight, output: Output) -> None:
    output.show(document(seen), lambda: job_page(seen))


async def show_job(job: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        seen = await queue.insights.job(job)
    _expect(seen, tenant)
    show(seen, output)
    if queue.tenant is not None and not seen.job.is_final:
        say("Why it waits, and whether it is late, is shown to the owner of the schema.")


async def follow_job(
    job: str, tenant: str | None, where: Where, output: Output, timeout: float | None
) -> None:
    """Show it until it has ended; the exit code says how."""
    async with reached_for(where, tenant) as queue:
        _expect(await queue.insights.job(job), tenant)
        seen = await until_ended(queue, job, timeout)
    show(seen, output)
    raise typer.Exit(exit_of_job(seen))


def _expect(seen: JobInsight, tenant: str | None) -> None:
    """Of a tenant that is named another's job is not there, whoever asks."""
    if tenant is not None and seen.job.tenant != tenant:
        raise JobNotFound(seen.job.id)


def exit_of_job(seen: JobInsight) -> Exit:
    return Exit.OK if seen.job.state == COMPLETED else Exit.FAILED


async def until_ended(queue: Reached, job: str, timeout: float | None) -> JobInsight:
    async def late(seen: JobInsight, waited: float) -> WaitTimeout:
        return WaitTimeout(job, seen.job.state, waited, seen.why)

    course = Course(
        "Job",
        job,
        look=lambda: queue.insights.job(job),
        is_over=lambda seen: seen.job.is_final,
        draw=job_page,
        late=late,
    )
    return await follow(queue, course, timeout)
