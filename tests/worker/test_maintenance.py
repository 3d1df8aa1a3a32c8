"""One worker leads the maintenance; another takes over when it goes."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.errors import EventTimeout
from penstock.lifecycle import DatabaseHealth
from penstock.maintenance.partitions import Partitions
from penstock.telemetry import LeaderChanged
from tests.fixtures.until import until
from tests.fixtures.worker import (
    counted,
    end_leases,
    gathered,
    ghost,
    listening,
    reaches,
    worker_of,
    worker_state,
)


def leads(worker) -> bool:
    return worker_state(worker).leads


async def test_one_of_many_workers_leads(app: Penstock) -> None:
    one, two, three = workers = [worker_of(app, term=10) for _ in range(3)]
    async with one, two, three:
        await until(lambda: any(map(leads, workers)), what="a leader")
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert sum(map(leads, workers)) == 1


@pytest.mark.told
async def test_when_the_leader_stops_another_leads_at_once(app: Penstock) -> None:
    """The seat is told to be vacant; nobody waits for the term to end."""
    first = worker_of(app, election=0.1, term=60)
    await first.start()
    await until(lambda: leads(first), what="the first to lead")
    async with worker_of(app, election=200, term=600) as second:
        await listening(second)
        assert not leads(second)
        await first.stop()
        await until(lambda: leads(second), what="the second to lead")


async def test_worker_leads_once_a_dead_leaders_term_is_over(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    lease = await connection.fetchval("SELECT penstock.open_lease_v1('ghost', 3600)")
    assert await connection.fetchval("SELECT penstock.elect_v1('maintenance', $1, 3600)", lease)
    async with worker_of(app) as worker:
        assert not leads(worker)
        await connection.execute("UPDATE penstock.leader SET expires_at = clock_timestamp()")
        await until(lambda: leads(worker), what="the worker to lead")


async def test_a_leader_whose_lease_is_dead_has_no_seat(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """However long its term would have been."""
    lease = await connection.fetchval("SELECT penstock.open_lease_v1('ghost', 3600)")
    assert await connection.fetchval("SELECT penstock.elect_v1('maintenance', $1, 3600)", lease)
    await end_leases(connection)
    async with worker_of(app) as worker:
        await until(lambda: leads(worker), what="the worker to lead")


async def test_schedules_fire_while_an_older_worker_leads(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """It leads the maintenance, and knows nothing of them."""
    lease = await connection.fetchval("SELECT penstock.open_lease_v1('old', 3600)")
    assert await connection.fetchval("SELECT penstock.elect_v1('maintenance', $1, 3600)", lease)

    @app.task
    async def note() -> None: ...

    @app.task
    async def patient(ctx: Context) -> None:
        with suppress(EventTimeout):
            await ctx.wait_for_event("never", timeout=0.1)

    app.schedule("notes", note, every=0.1)
    waiting = await app.enqueue(patient)
    async with worker_of(app) as worker:
        await until(lambda: app.schedule_fires("notes"), what="a tick")
        await reaches(app, waiting, "completed")
        assert not leads(worker)
        assert worker_state(worker).leads_orchestration


async def test_a_change_of_leader_is_an_event(app: Penstock) -> None:
    changes = gathered(app, LeaderChanged)
    async with worker_of(app):
        await until(lambda: changes, what="the election")
    assert changes[0].leads


async def test_a_deadline_is_kept_by_a_worker_of_other_queues(app: Penstock) -> None:
    @app.task
    async def note() -> None: ...

    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    ready = await app.enqueue(note.options(deadline=soon))
    later = await app.enqueue(note.options(deadline=soon, delay=3600))
    async with worker_of(app, "other"):
        for enqueued in (ready, later):
            job = await reaches(app, enqueued, "cancelled")
            assert (job.reason, job.attempt) == ("expired", 0)
            assert job.finished_at >= soon


async def test_a_job_past_its_deadline_is_never_begun(app: Penstock) -> None:
    ran = []

    @app.task
    async def note() -> None:
        ran.append(1)

    past = datetime.now(UTC) - timedelta(seconds=1)
    enqueued = await app.enqueue(note.options(deadline=past))
    async with worker_of(app):
        await reaches(app, enqueued, "cancelled")
    assert ran == []


async def test_a_running_job_may_finish_after_its_deadline(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    go_on = asyncio.Event()

    @app.task
    async def slow() -> str:
        await go_on.wait()
        return "late"

    @app.task
    async def waiting() -> None: ...

    async with worker_of(app):
        later = datetime.now(UTC) + timedelta(hours=1)
        running = await app.enqueue(slow.options(deadline=later))
        await reaches(app, running, "running")
        soon = datetime.now(UTC) + timedelta(seconds=0.1)
        await connection.execute("UPDATE penstock.job SET deadline = $1", soon)
        expired = await app.enqueue(waiting.options(deadline=soon, queue="nobody"))
        await reaches(app, expired, "cancelled")
        go_on.set()
        assert await app.wait(running, timeout=30) == "late"


async def test_leftovers_are_swept(app: Penstock, connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO penstock.lease (worker, expires_at)"
        " VALUES ('ghost', now() - interval '1 day');"
        "INSERT INTO penstock.unique_claim (kind, tenant, key, job, expires_at)"
        " VALUES ('idempotency', '', 'old', 1, now() - interval '1 s');"
        "INSERT INTO penstock.progress (job, done, updated_at)"
        " VALUES (123456, 1, now() - interval '2 years')"
    )

    async def swept() -> bool:
        left = await connection.fetchval(
            "SELECT (SELECT count(*) FROM penstock.lease WHERE worker = 'ghost')"
            " + (SELECT count(*) FROM penstock.unique_claim)"
            " + (SELECT count(*) FROM penstock.progress)"
        )
        return left == 0

    async with worker_of(app):
        await until(swept, what="the leftovers to go")


OLD_PARTITION = (
    "CREATE TABLE penstock.job_history_20200101 PARTITION OF penstock.job_history "
    "FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')"
)


async def partitions(connection: asyncpg.Connection) -> list[str]:
    rows = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'penstock'::regnamespace "
        "AND relname ~ '^job_history_[0-9]{8}$' ORDER BY relname"
    )
    return [row["relname"] for row in rows]


async def test_partitions_are_made_ahead_by_any_worker(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    names = await partitions(connection)
    for name in names[-3:]:
        await connection.execute(f"DROP TABLE penstock.{name}")

    async def whole() -> bool:
        return set(names) <= set(await partitions(connection))  # or more, past midnight

    async with worker_of(app, "other"):
        await until(whole, what="the partitions")


async def test_worker_attaches_partitions_and_logs_those_it_cannot(
    app: Penstock, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    whole, broken = (await partitions(connection))[-2:]
    for name in (whole, broken):
        await connection.execute(
            f"ALTER TABLE penstock.job_history DETACH PARTITION penstock.{name}"
        )
    await connection.execute(f"ALTER TABLE penstock.{broken} DROP COLUMN result")

    def told() -> list[str]:
        return [record.message for record in caplog.records if record.levelname == "ERROR"]

    async def is_attached() -> bool:
        attached = "SELECT count(*) FROM pg_inherits WHERE inhrelid = to_regclass($1)"
        return bool(await connection.fetchval(attached, f"penstock.{whole}"))

    async with worker_of(app, "other", partitions=0.1):
        await until(told, what="the worker to say so")
    assert await is_attached()
    [message, *_] = told()
    assert f"penstock.{broken} of the history is detached" in message
    assert f"ATTACH PARTITION penstock.{broken} FOR VALUES" in message


async def detach_all(connection: asyncpg.Connection, *, whole: bool) -> None:
    """Detach all partitions, at once, so that they can be attached again or not."""
    detach = "ALTER TABLE penstock.job_history DETACH PARTITION penstock.{};"
    spoil = "" if whole else "ALTER TABLE penstock.{} DROP COLUMN result;"
    names = await partitions(connection)
    await connection.execute("".join((detach + spoil).format(name, name) for name in names))


async def fated(app: Penstock, connection: asyncpg.Connection) -> tuple[str, str, str]:
    """A job of a lost worker that fails with that, one that does not, and one that expires."""

    @app.task
    async def work() -> None: ...

    lost, spared = await app.enqueue_many([work.prepare(), work.prepare()])
    await connection.execute("UPDATE penstock.job SET losses = 2 WHERE id = $1", int(lost.id))
    await ghost(connection, begins=True)
    late = await app.enqueue(work.options(deadline=datetime.now(UTC) - timedelta(seconds=1)))
    return lost.id, spared.id, late.id


async def test_maintenance_attaches_partitions_it_finds_detached(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    made = counted(app, "ensure_partitions")
    async with worker_of(app, "other"):
        await until(lambda: made[-1:] == [0], what="the first look at the partitions")
        await detach_all(connection, whole=True)
        lost, spared, late = await fated(app, connection)
        assert (await reaches(app, lost, "failed")).reason == "worker_lost"
        assert (await reaches(app, late, "cancelled")).reason == "expired"
        await reaches(app, spared, "ready")


async def test_unattachable_partition_does_not_block_other_rescues(
    app: Penstock, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    made = counted(app, "ensure_partitions")

    def told() -> list[str]:
        return [record.message for record in caplog.records if "ATTACH" in record.message]

    async with worker_of(app, "other"):
        await until(lambda: made[-1:] == [0], what="the first look at the partitions")
        await detach_all(connection, whole=False)
        lost, spared, _ = await fated(app, connection)
        await reaches(app, spared, "ready")
        await until(told, what="the worker to say what to do")
        assert (await app.get(lost)).state == "running"


async def test_leader_removes_expired_partitions(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await connection.execute(OLD_PARTITION)

    async def gone() -> bool:
        return "job_history_20200101" not in await partitions(connection)

    async with worker_of(app):
        await until(gone, what="the old partition to go")


async def test_a_new_leader_looks_for_old_partitions_at_once(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    lease = await connection.fetchval("SELECT penstock.open_lease_v1('ghost', 3600)")
    assert await connection.fetchval("SELECT penstock.elect_v1('maintenance', $1, 0.5)", lease)
    await connection.execute(OLD_PARTITION)

    async def gone() -> bool:
        return "job_history_20200101" not in await partitions(connection)

    async with worker_of(app, partitions=3600):
        await until(gone, what="the old partition to go")


async def test_expired_partition_is_removed_after_its_reader_ends(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await connection.execute(OLD_PARTITION)
    upkeep = Partitions(
        await app.pool(), app.store, DatabaseHealth(app.events), lambda: True, interval=1, ahead=7
    )
    async with connection.transaction(isolation="repeatable_read"):
        await connection.fetch("SELECT id FROM penstock.job_all")
        assert not await upkeep.remove_expired()
        assert not await upkeep.remove_expired()
    assert await upkeep.remove_expired()
    assert "job_history_20200101" not in await partitions(connection)
