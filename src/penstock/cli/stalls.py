"""Why jobs do not go on, for commands that wait for them."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import asyncpg

from penstock.app.app import Penstock
from penstock.cli.database import looking
from penstock.insights import Insights, WorkerInsight
from penstock.job import RUNNING, Job
from penstock.store import key_of

# What goes by itself, sooner or later.
COMMON = ("in_line", "busy", "later", "retry", "sleep", "poll", "lost")


@dataclass(frozen=True, slots=True)
class Stall:
    """One reason, and what to do about it; `queue` is the one in which jobs wait."""

    kind: str
    message: str
    queue: str = ""


async def stalls_of(app: Penstock, jobs: Sequence[str]) -> list[Stall]:
    """What keeps some jobs from going on; nothing where the role may not see it."""
    async with looking(app) as pool:
        insights = Insights(app.store, pool)
        try:
            found = await app.store.get(pool, [key_of(each) for each in jobs])
            stalls = _held(found, await insights.workers())
            waiting = next((each for each in found if not each.is_final and not _runs(each)), None)
            if waiting is not None:
                stalls += [
                    Stall(each.kind, each.message, waiting.queue)
                    for each in (await insights.job(waiting.id)).waits
                    if each.kind not in COMMON
                ]
        except asyncpg.InsufficientPrivilegeError:
            return []
    return stalls


def _runs(job: Job) -> bool:
    return job.state == RUNNING


def _held(jobs: Sequence[Job], workers: Sequence[WorkerInsight]) -> list[Stall]:
    """Jobs of workers that have died, which nobody knows before their leases end."""
    silent = {each.name: each for each in workers if _is_silent(each)}
    held = [job.worker for job in jobs if _runs(job) and job.worker in silent]
    if not held:
        return []
    left = max(silent[name].patience - silent[name].silent for name in held if name)
    are, they = ("is", "it is") if len(held) == 1 else ("are", "they are")
    when = f"in about {ceil(left)} s, when its lease ends" if left > 0 else "now: its lease ended"
    return [
        Stall(
            "held",
            f"{len(held):,} {are} held by a worker that does not answer; {they} taken back {when}.",
        )
    ]


def _is_silent(worker: WorkerInsight) -> bool:
    """Whether it has missed a heartbeat, or is of this machine and was ended."""
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
