"""What `penstock jobs show` does: a job as it is, or until it has ended."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

from penstock.cli.errors import DatabaseUnreachable
from penstock.cli.exits import Exit
from penstock.cli.opening import Reached, plain_errors, reached_for
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.job import job_page
from penstock.cli.where import Where
from penstock.client.waiting import Patience
from penstock.errors import JobNotFound, WaitTimeout
from penstock.insights import JobInsight
from penstock.job import COMPLETED

# How long a wait bears it that the database does not answer. Seconds.
AWAY = 60.0


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
    """Wait for a job's end, and meanwhile draw it on stderr if that is a terminal."""
    from rich.live import Live

    patience = Patience(timeout)
    console = terminal(stderr=True)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            seen = await _look(queue, job, patience)
            if seen.job.is_final:
                return seen
            if console.is_terminal:
                live.update(job_page(seen), refresh=True)
            if patience.is_over:
                raise WaitTimeout(job, seen.job.state, timeout or 0.0)
            await patience.pause()


async def _look(queue: Reached, job: str, patience: Patience) -> JobInsight:
    """Look at a job. A database that is away is waited for: most come back, as after a restart."""
    away = Patience(AWAY)
    while True:
        try:
            with plain_errors(queue.app.database):
                return await queue.insights.job(job)
        except DatabaseUnreachable as error:
            if patience.is_over or away.is_over:
                told = f"{error} Job {job} is stored there, and goes on when it is back."
                raise DatabaseUnreachable(told, id=job) from error
        await patience.pause()
