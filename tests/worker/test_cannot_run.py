"""A worker that cannot run a job says so in its log, with what to do."""

import logging
from dataclasses import dataclass

import pytest

from penstock import Penstock
from tests.fixtures.worker import reaches, worker_of


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [
        record
        for record in caplog.records
        if record.name == "penstock.worker" and record.levelno == logging.WARNING
    ]


async def test_a_worker_that_does_not_know_a_task_says_so_once(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def known() -> None: ...

    async with Penstock(app.url) as other:

        @other.task(name="elsewhere.send")
        async def send() -> None: ...

        jobs = [await other.enqueue(send) for _ in range(3)]
    async with worker_of(app):
        for job in jobs:
            await reaches(app, job, "scheduled")
    [record] = warnings(caplog)
    told = record.getMessage()
    assert "does not know the task elsewhere.send. Import the module that has it" in told
    fields = vars(record)
    assert (fields["task"], fields["queue"]) == ("elsewhere.send", "default")


async def test_log_names_each_job_that_failed_without_running(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Penstock(app.url) as other:

        @other.task(name="elsewhere.send")
        async def send() -> None: ...

        jobs = [await other.enqueue(send) for _ in range(3)]
    async with worker_of(app, park_limit=0.3, parked=0.05):
        for job in jobs:
            await reaches(app, job, "failed")
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    for job in jobs:
        [line] = [each for each in told if f"job {job.id} of elsewhere.send" in each]
        assert "failed for good" in line


async def test_a_worker_whose_tasks_do_not_take_the_arguments_says_so(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Penstock(app.url) as other:

        @other.task(name="shop.send")
        async def send_before(address: str) -> None: ...

        job = await other.enqueue(send_before, "ada")

    @app.task(name="shop.send")
    async def send(number: int) -> None: ...

    async with worker_of(app):
        await reaches(app, job, "scheduled")
    [record] = warnings(caplog)
    assert "The stored arguments do not fit the task 'shop.send'" in record.getMessage()


@dataclass
class Model:
    """A resource that this app does not open."""


async def test_a_worker_without_a_resource_says_so(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(resources=[Model])
    async def embed() -> None: ...

    job = await app.enqueue(embed)
    async with worker_of(app):
        await reaches(app, job, "scheduled")
    [record] = warnings(caplog)
    assert "could not open Model" in record.getMessage()


async def test_a_worker_without_tasks_says_so_at_its_start(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker_of(app, name="idle"):
        pass
    [record] = warnings(caplog)
    assert record.getMessage().startswith("Worker idle knows no task, so it can run no job.")
