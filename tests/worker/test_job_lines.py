"""What a worker logs about the jobs that it runs."""

import logging
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from penstock import Fixed, JobLog, Penstock
from penstock.outcome import DONE, RELEASED, Transition
from penstock.store import Settlement
from penstock.worker.settle.report import MAX_LINES_PER_S, JobLines, LineQuota
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

WORKER = "penstock.worker"


def lines(caplog: pytest.LogCaptureFixture, word: str) -> list[logging.LogRecord]:
    return [
        record for record in caplog.records if record.name == WORKER and word in record.getMessage()
    ]


async def test_a_job_that_completes_is_logged_with_its_duration(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="send")
    async def send() -> str:
        return "sent"

    job = await app.enqueue(send)
    with caplog.at_level(logging.INFO, WORKER):
        await worker_of(app).drain(seconds=30)
    [record] = lines(caplog, "completed in")
    assert record.getMessage().startswith(f"send (job {job.id}, attempt 1) completed in ")
    fields = vars(record)
    assert (fields["job_id"], fields["task"], fields["queue"]) == (job.id, "send", "default")
    assert fields["seconds"] >= 0


async def test_log_can_leave_out_completed_jobs(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def send() -> None: ...

    await app.enqueue(send)
    with caplog.at_level(logging.INFO, WORKER):
        tally = await app.worker(log=JobLog(completed=False)).drain(seconds=30)
    assert tally.completed == 1
    assert not lines(caplog, "completed in")


async def test_a_failure_is_logged_with_its_message_in_one_line(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="send", max_attempts=1)
    async def send() -> None:
        raise ValueError("no such\naddress")

    @app.task(name="again", retry=Fixed(600))
    async def again() -> None:
        raise ValueError("busy")

    jobs = [await app.enqueue(send), await app.enqueue(again)]
    await worker_of(app).drain(seconds=30)
    [last, first] = sorted(lines(caplog, "failed"), key=lambda record: -record.levelno)
    [raised, again_raised] = [
        f"{Path(__file__).relative_to(Path.cwd())}:{task.fn.__code__.co_firstlineno + 2} in {name}"
        for task, name in ((send, "send"), (again, "again"))
    ]
    assert last.getMessage() == (
        f"send (job {jobs[0].id}, attempt 1) failed for good (exhausted): "
        f"ValueError: no such address ({raised})"
    )
    assert first.getMessage() == (
        f"again (job {jobs[1].id}, attempt 1) failed and runs again in 10 min: "
        f"ValueError: busy ({again_raised})"
    )
    assert (first.levelno, last.levelno) == (logging.WARNING, logging.ERROR)


async def test_a_failure_is_logged_with_its_traceback_if_asked(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="send", max_attempts=1)
    async def send() -> None:
        raise ValueError("no such address")

    await app.enqueue(send)
    await app.worker(log=JobLog(tracebacks=True)).drain(seconds=30)
    [record] = lines(caplog, "failed")
    assert "Traceback (most recent call last):" in record.getMessage()
    assert "in send" in record.getMessage()


class Quick:
    """An attempt as its line in the log shows it."""

    seconds = 0.25

    class job:
        id = 1
        task = "send"
        queue = "default"
        number = 1

    def __repr__(self) -> str:
        return "send (job 1, attempt 1)"


def settled(count: int, transition: Transition = DONE) -> list[Settlement]:
    attempt: Any = Quick()
    return [Settlement(n, uuid4(), transition, None, attempt) for n in range(count)]


async def test_beyond_a_hundred_lines_a_second_only_a_count_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, WORKER):
        told = JobLines(LineQuota())
        told.settled([*settled(60), *settled(1, RELEASED), *settled(1, Transition("failed"))])
        told.settled(settled(1000))
        told.close()
    assert len(lines(caplog, "completed in 250 ms")) <= 2 * MAX_LINES_PER_S
    summaries = [record.getMessage() for record in lines(caplog, "more job")]
    assert len(summaries) == 1
    each = len(lines(caplog, "completed in 250 ms"))
    assert summaries == [f"{1060 - each} more jobs completed within a second."]


async def test_the_count_is_logged_when_the_second_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, WORKER):
        told = JobLines(LineQuota())
        told.settled(settled(500))
        await until(lambda: lines(caplog, "more job"), what="the number")
    assert len(lines(caplog, "completed in")) == MAX_LINES_PER_S


async def test_nothing_is_counted_where_nobody_would_read_it() -> None:
    logging.getLogger(WORKER).setLevel(logging.WARNING)
    try:
        told = JobLines(LineQuota())
        told.settled([object()] * 3)  # type: ignore[list-item]
    finally:
        logging.getLogger(WORKER).setLevel(logging.NOTSET)
