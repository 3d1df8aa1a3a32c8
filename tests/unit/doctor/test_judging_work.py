"""What the doctor makes of what it read about workers and jobs: tables, without a database."""

from typing import Any

import pytest

from penstock.doctor.checks import (
    failed,
    leader,
    lost,
    notifications,
    overdue,
    paused,
    resources,
    stuck,
    unserved,
    versions,
    workers,
)
from penstock.doctor.checks.failed import Failures
from penstock.doctor.checks.leader import Leadership, Seat
from penstock.doctor.checks.lost import Lost, LostJobs
from penstock.doctor.checks.overdue import Due, Overdue
from penstock.doctor.checks.stuck import Stuck
from penstock.doctor.checks.unserved import Service
from penstock.doctor.leases import Info, Lease
from penstock.doctor.limits import Limits
from penstock.doctor.waiting import Waiting

LIMITS = Limits()


def lease(worker: str = "ada", *, age: float = 600, silent: float = 5, **info: Any) -> Lease:
    return Lease(1, worker, age, silent, length=60, alive=silent < 60, info=Info(**info))


def verdicts(findings: Any) -> list[str]:
    return [str(finding.verdict) for finding in findings]


@pytest.mark.parametrize(
    ("leases", "expected"),
    [
        ([lease()], ["ok"]),
        ([lease(silent=29)], ["ok"]),
        ([lease(silent=31)], ["warning"]),
        ([lease(), lease(silent=61)], ["warning"]),
        ([], ["warning"]),
        ([lease(silent=61)], ["warning", "warning"]),
    ],
)
def test_workers(leases: list[Lease], expected: list[str]) -> None:
    assert verdicts(workers.judge(leases, LIMITS)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [([], "skipped"), (["1.0"], "ok"), (["1.0", "1.0"], "ok"), (["1.0", ""], "warning")],
)
def test_versions(found: list[str], expected: str) -> None:
    assert verdicts(versions.judge([lease(penstock=each) for each in found], LIMITS)) == [expected]


@pytest.mark.parametrize(
    ("leases", "expected"),
    [
        ([], "ok"),
        ([lease()], "ok"),
        ([lease(missing_resources={"Model": "down"})], "error"),
        ([lease(missing_resources={"Model": "down"}), lease()], "warning"),
        ([lease(missing_resources={"Model": "not yet"}, age=10)], "ok"),
    ],
)
def test_resources(leases: list[Lease], expected: str) -> None:
    assert verdicts(resources.judge(leases, LIMITS)) == [expected]


@pytest.mark.parametrize(
    ("seat", "oldest", "expected"),
    [
        (Seat("ada", 60, alive=True), 600, "ok"),
        (Seat("ada", 60, alive=False), 600, "error"),
        (None, 600, "error"),
        (None, 14, "ok"),
        (None, None, "skipped"),
    ],
)
def test_a_leader(seat: Seat | None, oldest: float | None, expected: str) -> None:
    assert verdicts(leader.judge(Leadership(seat, oldest), LIMITS)) == [expected]


@pytest.mark.parametrize(
    ("leases", "expected"),
    [
        ([], "skipped"),
        ([lease(hears=True)], "ok"),
        ([lease(hears=False, age=10)], "ok"),
        ([lease(hears=False), lease()], "warning"),
    ],
)
def test_notifications(leases: list[Lease], expected: str) -> None:
    assert verdicts(notifications.judge(leases, LIMITS)) == [expected]


def line(queue: str, task: str = "greet", *, seconds: float = 60, **more: Any) -> Waiting:
    return Waiting(queue, task, 3, seconds, example=1, **more)


@pytest.mark.parametrize(
    ("waiting", "leases", "expected"),
    [
        ([], [], ["ok"]),
        ([line("mail")], [], ["error"]),
        ([line("mail", seconds=29)], [], ["ok"]),
        ([line("mail", paused=5.0)], [], ["ok"]),
        ([line("mail")], [lease(queues={"default": 1}, tasks=frozenset({"greet"}))], ["error"]),
        ([line("mail")], [lease(queues={"mail": 1}, tasks=frozenset({"greet"}))], ["ok"]),
        ([line("mail")], [lease(queues={"mail": 1}, tasks=frozenset())], ["error"]),
        # Two workers of one queue: it is enough that one of them has the task.
        (
            [line("mail")],
            [lease(queues={"mail": 1}), lease(queues={"mail": 1}, tasks=frozenset({"greet"}))],
            ["ok"],
        ),
        # One finding a queue without a worker, one a task that its workers do not have.
        (
            [line("bulk", "a"), line("bulk", "b"), line("mail", "a"), line("mail", "b")],
            [lease(queues={"mail": 1})],
            ["error", "error", "error"],
        ),
    ],
)
def test_service(waiting: list[Waiting], leases: list[Lease], expected: list[str]) -> None:
    findings = unserved.judge(Service(tuple(waiting), tuple(leases)), LIMITS)
    assert verdicts(findings) == expected


def test_paused_queues_are_told_one_by_one() -> None:
    lines = [line("bulk", paused=60.0), line("mail", "a", paused=5.0), line("mail", paused=5.0)]
    findings = paused.judge(lines, LIMITS)
    assert verdicts(findings) == ["warning", "warning"]
    assert "with 6 jobs in it" in findings[1].seen


@pytest.mark.parametrize(("seconds", "expected"), [(5, "warning"), (3600, "error")])
@pytest.mark.parametrize(
    "reason", ["unknown_task", "bad_arguments", "missing_resource", "of_another_version"]
)
def test_stuck_jobs(reason: str, seconds: float, expected: str) -> None:
    found = Stuck("mail", "greet", reason, 2, seconds, example=7)
    [finding] = stuck.judge([found], LIMITS)
    assert finding.verdict == expected
    assert finding.remedy


@pytest.mark.parametrize(("seconds", "expected"), [(29, "ok"), (30, "error")])
def test_lost_jobs(seconds: float, expected: str) -> None:
    found = LostJobs("penstock", (Lost("ada", 2, seconds, example=7),))
    assert verdicts(lost.judge(found, LIMITS)) == [expected]


@pytest.mark.parametrize(("seconds", "expected"), [(None, "ok"), (59, "ok"), (60, "error")])
def test_overdue_jobs(seconds: float | None, expected: str) -> None:
    found = Overdue("penstock", Due(2, seconds))
    assert verdicts(overdue.judge(found, LIMITS)) == [expected]


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
    assert verdicts(failed.judge(found, LIMITS)) == expected
