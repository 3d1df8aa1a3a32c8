"""Jobs that wait, are stuck, lost, late, paused or failed, and how that is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from penstock import Context, Penstock, task
from tests.doctor.examined import ERROR, OK, WARNING, Examined, paste
from tests.fixtures.until import until
from tests.fixtures.worker import ghost, reaches, worker_of


@task(name="shop.elsewhere")
async def elsewhere(number: int = 0) -> None:
    """A task that no worker here has registered."""


# Ready jobs and who serves them


async def test_jobs_in_a_queue_that_a_worker_serves_are_fine(
    app: Penstock, examined: Examined
) -> None:
    app.include(elsewhere)
    await app.pause("mail")  # so that it stays ready
    async with worker_of(app, "mail"):
        await app.enqueue(elsewhere.options(queue="mail"))
        [finding] = await examined("unserved-jobs", unserved=0)
    assert finding.verdict is OK


async def test_a_queue_that_no_worker_serves_is_named_with_what_waits(
    app: Penstock, examined: Examined
) -> None:
    async with worker_of(app, "default"):
        await app.enqueue_many([elsewhere.options(queue="mail").prepare(n) for n in range(3)])
        [finding] = await examined("unserved-jobs")
        assert finding.verdict is WARNING, "it may be about to be served"
        assert finding.paste == ("penstock work APP --queue mail",)
        [finding] = await examined("unserved-jobs", unserved=0)
    assert finding.verdict is ERROR
    assert "The queue mail has 3 jobs and no living worker" in finding.seen
    assert "shop.elsewhere" in finding.seen
    assert finding.paste == ("penstock work APP --queue mail",)


async def test_a_task_that_no_worker_of_its_queue_has_is_named(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute(
        """SELECT penstock.open_lease_v1(
               'ada', 60, '{"queues": {"mail": 1}, "tasks": ["shop.here"]}')"""
    )
    await connection.execute(
        "SELECT penstock.enqueue(t, queue => 'mail') FROM unnest(ARRAY['shop.here', 'shop.gone']) t"
    )
    [finding] = await examined("unserved-jobs", unserved=0)
    assert finding.verdict is ERROR
    assert "1 job of the task shop.gone" in finding.seen
    assert "ada" in finding.seen


async def test_a_lost_workers_queues_count_as_unserved(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute(
        """SELECT penstock.open_lease_v1('ada', 60, '{"queues": {"default": 1}}', 'worker',
                                         now() - interval '61 s')"""
    )
    await app.enqueue(elsewhere)
    [finding] = await examined("unserved-jobs", unserved=0)
    assert finding.verdict is ERROR


async def test_of_a_great_many_only_so_many_are_counted(app: Penstock, examined: Examined) -> None:
    await app.enqueue_many([elsewhere.prepare(n) for n in range(30)])
    [finding] = await examined("unserved-jobs", unserved=0, sample_jobs=20)
    assert "20 or more jobs" in finding.seen


async def test_jobs_in_a_paused_queue_are_told_with_the_way_to_resume(
    app: Penstock, examined: Examined
) -> None:
    await app.pause("mail")
    [finding] = await examined("paused-queues")
    assert finding.verdict is OK, "nothing waits in it"
    await app.enqueue(elsewhere.options(queue="mail"))
    [finding] = await examined("paused-queues")
    assert finding.verdict is WARNING
    assert "with 1 job in it" in finding.seen
    assert finding.paste == ("penstock queues resume mail",)
    [finding] = await examined("unserved-jobs", unserved=0)
    assert finding.verdict is OK, "it is meant to wait"
    await app.resume("mail")
    [finding] = await examined("paused-queues")
    assert finding.verdict is OK


# Stuck jobs


class Model:
    """A thing that is away."""


async def test_stuck_jobs_are_told_by_reason_with_what_was_wrong(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    @app.resource
    @asynccontextmanager
    async def model() -> AsyncIterator[Model]:
        raise ConnectionError("the model server is down")
        yield

    @task(name="shop.count")
    async def before(number: str) -> None: ...

    @app.task(name="shop.count")
    async def now(number: int) -> None: ...

    @app.task(name="shop.think", resources=[Model])
    async def think(ctx: Context) -> None: ...

    [finding] = await examined("stuck-jobs")
    assert finding.verdict is OK
    jobs = await app.enqueue_many(
        [elsewhere.prepare(1), elsewhere.prepare(2), before.prepare("three"), think.prepare()]
    )
    async with worker_of(app):
        for job in jobs:
            await reaches(app, job, "scheduled")
    unknown, *others = await examined("stuck-jobs")
    assert unknown.verdict is WARNING
    assert "2 jobs of the task shop.elsewhere" in unknown.seen
    assert "unknown_task" in unknown.seen
    assert unknown.paste == (f"penstock jobs cancel {jobs[0].id}",)
    told = " ".join(finding.seen for finding in others)
    for word in ("bad_arguments", "number", "missing_resource", "Model"):
        assert word in told
    await connection.execute("UPDATE penstock.job SET stuck_since = now() - interval '2 h'")
    assert {finding.verdict for finding in await examined("stuck-jobs")} == {ERROR}


# Running jobs that nobody runs


async def test_jobs_of_a_lost_worker_are_told_until_they_are_rescued(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    await app.enqueue_many([elsewhere.prepare(n) for n in range(3)])
    assert len(await ghost(connection, seconds=0.2, count=2)) == 2

    async def told() -> bool:
        [finding] = await examined("lost-jobs", lost=0)
        return finding.verdict is ERROR

    await until(told, what="the lease to end")
    [finding] = await examined("lost-jobs")
    assert finding.verdict is OK, "a worker may be about to rescue them"
    [finding] = await examined("lost-jobs", lost=0)
    assert "still has 2 jobs" in finding.seen
    assert "ghost" in finding.seen
    await paste(connection, finding)
    [finding] = await examined("lost-jobs", lost=0)
    assert finding.verdict is OK


async def test_jobs_of_a_living_worker_are_not_lost(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    await app.enqueue(elsewhere)
    await ghost(connection, seconds=60)
    [finding] = await examined("lost-jobs", lost=0)
    assert finding.verdict is OK


async def test_a_job_that_runs_past_its_timeout_is_told(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    enqueued = await app.enqueue(elsewhere.options(timeout=0.05))
    await ghost(connection, seconds=60)

    async def told() -> bool:
        [finding] = await examined("overtime-jobs", overtime=0)
        return finding.verdict is WARNING

    await until(told, what="the timeout to pass")
    [finding] = await examined("overtime-jobs", overtime=0)
    assert "shop.elsewhere" in finding.seen
    assert "ghost" in finding.seen
    assert finding.paste == (f"penstock jobs cancel {enqueued.id}",)
    [finding] = await examined("overtime-jobs")
    assert finding.verdict is OK, "its worker or the leader may be about to end it"


async def test_scheduled_jobs_that_nobody_makes_ready_are_told(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    await app.enqueue(elsewhere.options(delay=0.05))
    await app.enqueue(elsewhere.options(delay=3600))

    async def told() -> bool:
        [finding] = await examined("overdue-jobs", overdue=0)
        return finding.verdict is ERROR

    await until(told, what="the job's time to come")
    [finding] = await examined("overdue-jobs", overdue=0)
    assert "1 job should have become ready" in finding.seen
    await paste(connection, finding)
    [finding] = await examined("overdue-jobs", overdue=0)
    assert finding.verdict is OK


# Failed jobs


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        ({"failures_warning_hourly": 5}, OK),
        ({"failures_warning_hourly": 4}, WARNING),
        ({"failures_warning_hourly": 4, "failures_error_hourly": 4}, ERROR),
    ],
)
async def test_recent_failures_are_reported_with_the_commonest_error(
    app: Penstock,
    connection: asyncpg.Connection,
    examined: Examined,
    limits: dict[str, int],
    verdict: object,
) -> None:
    @app.task(name="shop.charge", max_attempts=1)
    async def charge(number: int) -> None:
        if number == 0:
            raise KeyError("no such customer")
        raise ValueError("the card was refused")

    await app.enqueue_many([charge.prepare(n) for n in range(5)])
    await worker_of(app).drain()
    # One of them a while ago: it counts no more.
    await connection.execute(
        "UPDATE penstock.job_history SET finished_at = now() - interval '2 h' WHERE id = "
        "(SELECT max(id) FROM penstock.job_history)"
    )
    [finding] = await examined("failed-jobs", **limits)
    assert finding.verdict is verdict
    if verdict is OK:
        assert finding.seen.startswith("4 jobs failed")
    else:
        assert "4 jobs of the task shop.charge failed" in finding.seen
        assert "3 of them (exhausted) with ValueError: the card was refused" in finding.seen
