"""Find out why jobs make no progress, for commands that wait for jobs."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import asyncpg

from penstock.app.app import Penstock
from penstock.cli.database import open_reading_pool
from penstock.insights import Insights, WorkerInsight
from penstock.job import RUNNING, Job
from penstock.store import key_of

# These reasons pass without anybody's help.
SELF_RESOLVING = ("in_line", "busy", "later", "retry", "sleep", "poll", "lost")


@dataclass(frozen=True, slots=True)
class Stall:
    """One reason why jobs wait, and what to do; `queue` is the queue of the waiting job."""

    kind: str
    message: str
    queue: str = ""


async def stalls_of(app: Penstock, jobs: Sequence[str]) -> list[Stall]:
    """Return why the jobs make no progress, or an empty list if the role may not read that."""
    async with open_reading_pool(app) as pool:
        insights = Insights(app.store, pool)
        try:
            stored_jobs = await app.store.get(pool, [key_of(reason) for reason in jobs])
            stalls = _find_jobs_of_silent_workers(stored_jobs, await insights.workers())
            waiting = next(
                (
                    reason
                    for reason in stored_jobs
                    if not reason.is_final and not _is_running(reason)
                ),
                None,
            )
            if waiting is not None:
                stalls += [
                    Stall(reason.kind, reason.message, waiting.queue)
                    for reason in (await insights.job(waiting.id)).waits
                    if reason.kind not in SELF_RESOLVING
                ]
        except asyncpg.InsufficientPrivilegeError:
            return []
    return stalls


def _is_running(job: Job) -> bool:
    return job.state == RUNNING


def _find_jobs_of_silent_workers(
    jobs: Sequence[Job], workers: Sequence[WorkerInsight]
) -> list[Stall]:
    """Report jobs that are held by workers that do not answer, and when they are taken back."""
    silent = {worker.name: worker for worker in workers if _is_silent(worker)}
    holders = [job.worker for job in jobs if _is_running(job) and job.worker in silent]
    if not holders:
        return []
    seconds_left = max(silent[name].patience - silent[name].silent for name in holders if name)
    are, they_are = ("is", "it is") if len(holders) == 1 else ("are", "they are")
    when = (
        f"in about {ceil(seconds_left)} s, when its lease ends"
        if seconds_left > 0
        else "now: its lease ended"
    )
    return [
        Stall(
            "held",
            f"{len(holders):,} {are} held by a worker that does not answer; "
            f"{they_are} taken back {when}.",
        )
    ]


def _is_silent(worker: WorkerInsight) -> bool:
    """Return whether a worker missed heartbeats, or ran on this machine and has ended."""
    if worker.silent > worker.patience / 2:
        return True
    if worker.host != socket.gethostname() or worker.pid is None:
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
