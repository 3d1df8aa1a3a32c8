"""Follow a job, a batch or a workflow until it has ended, and draw it meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import typer

from penstock.cli.database import Reached, plain_errors, reached_for
from penstock.cli.errors import DatabaseUnreachable
from penstock.cli.framework import Exit
from penstock.cli.options import Where
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.jobs import job_page
from penstock.connect.wait import PollTimer
from penstock.errors import DatabaseLost, JobNotFound, PenstockError, WaitTimeout
from penstock.insights import JobInsight
from penstock.job import COMPLETED

if TYPE_CHECKING:
    from rich.console import RenderableType


Seen = TypeVar("Seen")

# How long a wait bears it that the database does not answer. Seconds.
AWAY = 60.0


@dataclass(frozen=True, slots=True)
class Course(Generic[Seen]):
    """What is followed: how to look at it, when it is over, how it is drawn, what being late is."""

    kind: str
    id: str
    look: Callable[[], Awaitable[Seen]]
    is_over: Callable[[Seen], bool]
    draw: Callable[[Seen], RenderableType]
    late: Callable[[Seen, float], Awaitable[PenstockError]]


async def follow(queue: Reached, course: Course[Seen], timeout: float | None) -> Seen:
    """Wait for its end, and meanwhile draw it on stderr if that is a terminal."""
    from rich.live import Live

    patience = PollTimer(timeout)
    console = terminal(stderr=True)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not course.is_over(seen := await _look(queue, course, patience)):
            if console.is_terminal:
                live.update(course.draw(seen), refresh=True)
            if patience.is_over:
                raise await course.late(seen, timeout or 0.0)
            await patience.pause()
    return seen


async def _look(queue: Reached, course: Course[Seen], patience: PollTimer) -> Seen:
    """Look at it. A database that is away is waited for: most come back, as after a restart."""
    away = PollTimer(AWAY)
    while True:
        try:
            with plain_errors(queue.app.database):
                return await course.look()
        except (DatabaseUnreachable, DatabaseLost) as error:
            if patience.is_over or away.is_over:
                why, what = str(error).rstrip("."), f"{course.kind} {course.id}"
                told = f"{why}. {what} is stored there, and goes on when it is back."
                raise DatabaseUnreachable(told, id=course.id) from error
        await patience.pause()


def job_document(seen: JobInsight) -> dict[str, Any]:
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


def print_job(seen: JobInsight, output: Output) -> None:
    output.show(job_document(seen), lambda: job_page(seen))


async def show_job(job: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        seen = await queue.insights.job(job)
    _expect_tenant(seen, tenant)
    print_job(seen, output)
    if queue.tenant is not None and not seen.job.is_final:
        say("Why it waits, and whether it is late, is shown to the owner of the schema.")


async def follow_job(
    job: str, tenant: str | None, where: Where, output: Output, timeout: float | None
) -> None:
    """Show it until it has ended; the exit code says how."""
    async with reached_for(where, tenant) as queue:
        _expect_tenant(await queue.insights.job(job), tenant)
        seen = await until_ended(queue, job, timeout)
    print_job(seen, output)
    raise typer.Exit(exit_of_job(seen))


def _expect_tenant(seen: JobInsight, tenant: str | None) -> None:
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
