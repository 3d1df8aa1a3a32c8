"""Are there ready jobs that no living worker serves?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.doctor.waiting import Waiting, waiting
from penstock.doctor.workforce import living, workforce
from penstock.insights import WorkerInsight
from penstock.wording import counted, listed, span


class Service(Struct, frozen=True):
    """What waits, ordered by queue, and who is there for it."""

    waiting: tuple[Waiting, ...]
    alive: tuple[WorkerInsight, ...]

    def of(self, queue: str) -> list[WorkerInsight]:
        return [worker for worker in self.alive if queue in worker.queues]


async def read(patient: Patient) -> Service:
    return Service(tuple(await waiting(patient)), tuple(living(await workforce(patient))))


def judge(service: Service, limits: Limits) -> Sequence[Finding]:
    # What is paused is meant to wait, and has a check of its own.
    patiently = [each for each in service.waiting if each.paused is None]
    findings: list[Finding] = []
    for queue, grouped in groupby(patiently, key=lambda line: line.queue):
        lines, workers = list(grouped), service.of(queue)
        late = [line for line in lines if line.seconds >= limits.unserved]
        if workers:
            findings += _by_task(late, workers, limits)
        elif late:
            findings.append(_queue(error, queue, late, limits))
        elif service.alive:
            # Others have started, so its worker is hardly just about to.
            findings.append(_queue(warning, queue, lines, limits))
    if findings:
        return findings
    if patiently and not service.alive:
        return [
            ok(f"No job has been ready for {span(limits.unserved)} yet, but there is no worker.")
        ]
    return [ok("Every queue and task with ready jobs has a worker.")]


def _queue(
    verdict: Callable[..., Finding], queue: str, lines: Sequence[Waiting], limits: Limits
) -> Finding:
    jobs = sum(line.jobs for line in lines)
    return verdict(
        f"The queue {queue} has {counted(jobs, 'job', limits.sample_jobs)} and no living worker; "
        f"the oldest has waited for {span(max(line.seconds for line in lines))}. Tasks: "
        f"{listed(line.task for line in lines)}.",
        "Start a worker for it where the code of these tasks is:",
        f"penstock work APP --queue {queue}",
    )


def _by_task(
    lines: Sequence[Waiting], workers: Sequence[WorkerInsight], limits: Limits
) -> list[Finding]:
    return [
        error(
            f"The queue {line.queue} has {counted(line.jobs, 'job', limits.sample_jobs)} of the "
            f"task {line.task}, which none of its workers has; the oldest has waited for "
            f"{span(line.seconds)}. Its workers: {listed(worker.name for worker in workers)}.",
            "Deploy the code that has it, or register the task with the app that they run.",
            f"penstock jobs show {line.example}",
        )
        for line in lines
        if not any(worker.may_run(line.task) for worker in workers)
    ]


UNSERVED = Check(
    "unserved-jobs",
    Group.JOBS,
    "Are there ready jobs in a queue, or of a task, that no living worker serves?",
    read,
    judge,
)
