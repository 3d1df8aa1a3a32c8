"""What the doctor makes of what it read about workers and jobs: tables, without a database."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.doctor.check import CheckLimits
from penstock.doctor.checks import jobs as checks_jobs
from penstock.doctor.checks import queues as checks_queues
from penstock.doctor.checks import workers
from penstock.doctor.checks import workers as checks_workers
from penstock.doctor.checks.jobs import (
    DueJobs,
    Failures,
    LostJobs,
    LostWorker,
    OverdueSchedule,
    StuckJobs,
)
from penstock.doctor.checks.queues import QueueService, ReadyJobs
from penstock.insights import Count, Unwritten, WorkerInsight

LIMITS = CheckLimits()
NOON = datetime(2026, 7, 18, 12, tzinfo=UTC)


def worker(
    name: str = "ada",
    *,
    age: float = 600,
    silent: float = 5,
    is_leader: bool = False,
    penstock: str | None = "1.0",
    queues: dict[str, int] | None = None,
    tasks: tuple[str, ...] = (),
    hears: bool = True,
    missing_resources: dict[str, str] | None = None,
    unwritten: Unwritten | None = None,
) -> WorkerInsight:
    """A worker with a lease of a minute, which began and was last heard of so long ago."""
    return WorkerInsight(
        lease="1",
        name=name,
        kind="worker",
        is_alive=silent < 60,
        is_leader=is_leader,
        started_at=NOON - timedelta(seconds=age),
        renewed_at=NOON - timedelta(seconds=silent),
        expires_at=NOON + timedelta(seconds=60 - silent),
        silent=silent,
        running=Count(0),
        host="cellar",
        pid=4711,
        python="3.13",
        penstock=penstock,
        queues=queues or {},
        tasks=tasks,
        hears=hears,
        missing_resources=missing_resources or {},
        unwritten=unwritten,
    )


def verdicts(findings: Any) -> list[str]:
    return [str(finding.verdict) for finding in findings]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([worker()], ["ok"]),
        ([worker(silent=29)], ["ok"]),
        ([worker(silent=31)], ["warning"]),
        ([worker(), worker(silent=61)], ["warning"]),
        ([], ["warning"]),
        ([worker(silent=61)], ["warning", "warning"]),
        ([worker(unwritten=Unwritten(3, "RaiseError", "closed")), worker()], ["error"]),
    ],
)
def test_workers(found: list[WorkerInsight], expected: list[str]) -> None:
    assert verdicts(workers.judge_workers(found, LIMITS)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [([], "skipped"), (["1.0"], "ok"), (["1.0", "1.0"], "ok"), (["1.0", None], "warning")],
)
def test_versions(found: list[str | None], expected: str) -> None:
    assert verdicts(
        checks_workers.judge_versions([worker(penstock=each) for each in found], LIMITS)
    ) == [expected]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], "ok"),
        ([worker()], "ok"),
        ([worker(missing_resources={"Model": "down"})], "error"),
        ([worker(missing_resources={"Model": "down"}), worker()], "warning"),
        ([worker(missing_resources={"Model": "not yet"}, age=10)], "ok"),
    ],
)
def test_resources(found: list[WorkerInsight], expected: str) -> None:
    assert verdicts(checks_workers.judge_resources(found, LIMITS)) == [expected]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([worker(), worker(is_leader=True)], "ok"),
        ([worker(), worker(is_leader=True, silent=61)], "error"),
        ([worker()], "error"),
        ([worker(age=14)], "ok"),
        ([worker(age=14), worker()], "error"),
        ([], "skipped"),
        ([worker(silent=61)], "skipped"),
    ],
)
def test_a_leader(found: list[WorkerInsight], expected: str) -> None:
    assert verdicts(checks_workers.judge_leader(found, LIMITS)) == [expected]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], "skipped"),
        ([worker(hears=True)], "ok"),
        ([worker(hears=False, age=10)], "ok"),
        ([worker(hears=False), worker()], "warning"),
    ],
)
def test_notifications(found: list[WorkerInsight], expected: str) -> None:
    assert verdicts(checks_workers.judge_notifications(found, LIMITS)) == [expected]


def line(queue: str, task: str = "greet", *, seconds: float = 60, **more: Any) -> ReadyJobs:
    return ReadyJobs(queue, task, 3, seconds, example=1, **more)


@pytest.mark.parametrize(
    ("waiting", "found", "expected"),
    [
        ([], [], ["ok"]),
        ([line("mail")], [], ["error"]),
        ([line("mail", seconds=29)], [], ["ok"]),
        ([line("mail", paused=5.0)], [], ["ok"]),
        ([line("mail")], [worker(queues={"default": 1}, tasks=("greet",))], ["error"]),
        ([line("mail")], [worker(queues={"mail": 1}, tasks=("greet",))], ["ok"]),
        ([line("mail")], [worker(queues={"mail": 1}, tasks=("other",))], ["error"]),
        # Two workers of one queue: it is enough that one of them has the task.
        (
            [line("mail")],
            [
                worker(queues={"mail": 1}, tasks=("other",)),
                worker(queues={"mail": 1}, tasks=("greet",)),
            ],
            ["ok"],
        ),
        # One that names no tasks and no version is not Penstock's own, and may have any.
        (
            [line("mail")],
            [
                worker(queues={"mail": 1}, tasks=("other",)),
                worker(queues={"mail": 1}, penstock=None),
            ],
            ["ok"],
        ),
        ([line("mail")], [worker(queues={"mail": 1})], ["error"]),
        # Workers of other queues have started already.
        ([line("mail", seconds=5)], [worker(queues={"default": 1})], ["warning"]),
        # One finding a queue without a worker, one a task that its workers do not have.
        (
            [line("bulk", "a"), line("bulk", "b"), line("mail", "a"), line("mail", "b")],
            [worker(queues={"mail": 1}, tasks=("other",))],
            ["error", "error", "error"],
        ),
    ],
)
def test_service(waiting: list[ReadyJobs], found: list[WorkerInsight], expected: list[str]) -> None:
    findings = checks_queues.judge_unserved(QueueService(tuple(waiting), tuple(found)), LIMITS)
    assert verdicts(findings) == expected


def test_queue_without_a_worker_is_not_called_served() -> None:
    [finding] = checks_queues.judge_unserved(QueueService((line("mail", seconds=5),), ()), LIMITS)
    assert "there is no worker" in finding.seen


def test_paused_queues_are_told_one_by_one() -> None:
    lines = [line("bulk", paused=60.0), line("mail", "a", paused=5.0), line("mail", paused=5.0)]
    findings = checks_queues.judge_paused(lines, LIMITS)
    assert verdicts(findings) == ["warning", "warning"]
    assert "with 6 jobs in it" in findings[1].seen


@pytest.mark.parametrize(("seconds", "expected"), [(5, "warning"), (3600, "error")])
@pytest.mark.parametrize(
    "reason", ["unknown_task", "bad_arguments", "missing_resource", "of_another_version"]
)
def test_stuck_jobs(reason: str, seconds: float, expected: str) -> None:
    found = StuckJobs("mail", "greet", reason, 2, seconds, example=7)
    [finding] = checks_jobs.judge_stuck([found], LIMITS)
    assert finding.verdict == expected
    assert finding.remedy


@pytest.mark.parametrize(("seconds", "expected"), [(29, "ok"), (30, "error")])
def test_lost_jobs(seconds: float, expected: str) -> None:
    found = LostJobs("penstock", (LostWorker("ada", 2, seconds, example=7),))
    assert verdicts(checks_jobs.judge_lost(found, LIMITS)) == [expected]


@pytest.mark.parametrize(("seconds", "expected"), [(None, "ok"), (59, "ok"), (60, "error")])
def test_overdue_jobs(seconds: float | None, expected: str) -> None:
    found = OverdueSchedule("penstock", DueJobs(2, seconds))
    assert verdicts(checks_jobs.judge_overdue(found, LIMITS)) == [expected]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ({}, ["ok"]),
        ({("a", "E"): 9}, ["ok"]),
        ({("a", "E"): 6, ("b", "E"): 6}, ["ok"]),
        ({("a", "E"): 6, ("a", "F"): 4}, ["warning"]),
        ({("a", "E"): 1000, ("b", "E"): 10}, ["error", "warning"]),
    ],
)
def test_failed_jobs(jobs: dict[tuple[str, str], int], expected: list[str]) -> None:
    found = [
        Failures(task, "exhausted", error, count, example=1)
        for (task, error), count in jobs.items()
    ]
    assert verdicts(checks_jobs.judge_failed(found, LIMITS)) == expected


def test_jobs_that_killed_their_processes_say_how() -> None:
    found = [Failures("parse", "poison", "OutOfMemory", 12, 7, "It held 600 MB.")]
    [finding] = checks_jobs.judge_failed(found, LIMITS)
    assert "12 of them (poison) with OutOfMemory: It held 600 MB." in finding.seen
    assert "more memory or time" in finding.remedy
