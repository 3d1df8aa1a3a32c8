"""Follow a job, a batch or a workflow until it has ended, and draw it meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import typer

from penstock.cli.database import OpenQueue, explain_database_errors, open_queue_for
from penstock.cli.errors import DatabaseUnreachable
from penstock.cli.framework import Exit
from penstock.cli.options import DatabaseOptions
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.jobs import job_page
from penstock.connect.wait import PollTimer
from penstock.errors import DatabaseLost, JobNotFound, PenstockError, WaitTimeout
from penstock.insights import JobInsight
from penstock.job import COMPLETED

if TYPE_CHECKING:
    from rich.console import RenderableType


State = TypeVar("State")

# How long a wait tolerates that the database does not answer.
MAX_OUTAGE_S = 60.0


@dataclass(frozen=True, slots=True)
class Followed(Generic[State]):
    """A job, batch or workflow to follow.

    Its functions read and draw the state, tell whether that state is final, and build the error
    for a timeout.
    """

    kind: str
    id: str
    read: Callable[[], Awaitable[State]]
    is_over: Callable[[State], bool]
    draw: Callable[[State], RenderableType]
    timeout_error: Callable[[State, float], Awaitable[PenstockError]]


async def follow(queue: OpenQueue, followed: Followed[State], timeout: float | None) -> State:
    """Wait until a job, batch or workflow has ended, and return its final state.

    Each state is drawn on stderr if stderr is a terminal.
    """
    from rich.live import Live

    timer = PollTimer(timeout)
    console = terminal(stderr=True)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not followed.is_over(state := await _read_through_outages(queue, followed, timer)):
            if console.is_terminal:
                live.update(followed.draw(state), refresh=True)
            if timer.is_over:
                raise await followed.timeout_error(state, timeout or 0.0)
            await timer.pause()
    return state


async def _read_through_outages(
    queue: OpenQueue, followed: Followed[State], timer: PollTimer
) -> State:
    """Read the present state. While the database is unreachable, try again for up to a minute."""
    outage = PollTimer(MAX_OUTAGE_S)
    while True:
        try:
            with explain_database_errors(queue.app.database):
                return await followed.read()
        except (DatabaseUnreachable, DatabaseLost) as error:
            if timer.is_over or outage.is_over:
                reason, name = str(error).rstrip("."), f"{followed.kind} {followed.id}"
                message = (
                    f"{reason}. {name} is kept in the database, and goes on when the database is "
                    "back."
                )
                raise DatabaseUnreachable(message, id=followed.id) from error
        await timer.pause()


def job_document(state: JobInsight) -> dict[str, Any]:
    """Return a job as a JSON object: its own fields, and fields that explain its state."""
    job: dict[str, Any] = msgspec.to_builtins(state.job)
    return job | {
        "worker": state.place.worker,
        "progress": state.place.progress,
        "late_after": state.place.late_after,
        "late": state.place.late,
        "turn": state.turn,
        "waits": state.waits,
        "timeline": state.timeline,
        "steps": state.steps,
        "held_by": None if state.holder is None else state.holder._asdict(),
    }


def print_job(state: JobInsight, output: Output) -> None:
    output.show(job_document(state), lambda: job_page(state))


async def show_job(job: str, tenant: str | None, db: DatabaseOptions, output: Output) -> None:
    """Print one job with everything that is known about it."""
    async with open_queue_for(db, tenant) as queue:
        state = await queue.insights.job(job)
    _require_tenant(state, tenant)
    print_job(state, output)
    if queue.tenant is not None and not state.job.is_final:
        say("Only the owner of the schema sees why it waits, and whether it is late.")


async def follow_job(
    job: str, tenant: str | None, db: DatabaseOptions, output: Output, timeout: float | None
) -> None:
    """Wait until a job has ended, print it, and exit with `FAILED` unless it completed."""
    async with open_queue_for(db, tenant) as queue:
        _require_tenant(await queue.insights.job(job), tenant)
        state = await follow_to_end(queue, job, timeout)
    print_job(state, output)
    raise typer.Exit(exit_of_job(state))


def _require_tenant(state: JobInsight, tenant: str | None) -> None:
    """Raise `JobNotFound` if a tenant is named and the job belongs to another one."""
    if tenant is not None and state.job.tenant != tenant:
        raise JobNotFound(state.job.id)


def exit_of_job(state: JobInsight) -> Exit:
    return Exit.OK if state.job.state == COMPLETED else Exit.FAILED


async def follow_to_end(queue: OpenQueue, job: str, timeout: float | None) -> JobInsight:
    """Wait until a job has ended, and return it; raise `WaitTimeout` if that takes too long."""

    async def timeout_error(state: JobInsight, waited: float) -> WaitTimeout:
        return WaitTimeout(job, state.job.state, waited, state.why)

    followed = Followed(
        "Job",
        job,
        read=lambda: queue.insights.job(job),
        is_over=lambda state: state.job.is_final,
        draw=job_page,
        timeout_error=timeout_error,
    )
    return await follow(queue, followed, timeout)
