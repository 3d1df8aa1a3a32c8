"""Time passes without being waited for."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import msgspec
import pytest

from penstock import Context, Fixed, Job, Penstock, Snooze, sql
from penstock.errors import ConfigError
from penstock.testing import advance, advance_to, drain
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import queue_state, worker_of

MOMENTS = """
SELECT c.table_name || '.' || c.column_name AS name
  FROM information_schema.columns AS c
  JOIN information_schema.tables AS t USING (table_schema, table_name)
 WHERE c.table_schema = 'penstock' AND c.data_type IN ('timestamp with time zone', 'date')
   AND t.table_type = 'BASE TABLE' AND c.table_name !~ '_[0-9]{8}$'
"""
# A living worker renews its lease, a tick is a name, and when a migration ran concerns no job.
STAY = ("lease.", "leader.", "signal.", "schedule.", "schedule_fire.", "migration.")


async def test_a_delayed_job_comes_due(app: Penstock) -> None:
    ran = []

    @app.task(name="remind")
    async def remind(ctx: Context) -> None:
        ran.append(ctx.job)

    await app.enqueue(remind.options(delay=timedelta(hours=2)))
    await drain(app)
    await advance(app, hours=1, minutes=59)
    await drain(app)
    assert ran == []
    await advance(app, minutes=1)
    await drain(app)
    [job] = ran
    now = datetime.now(UTC)
    assert timedelta(hours=2) <= now - job.created_at < timedelta(hours=2, minutes=1)
    assert job.run_at - job.created_at == timedelta(hours=2)
    assert job.run_at <= job.ready_at <= now


async def test_a_retry_s_pause_is_skipped(app: Penstock) -> None:
    @app.task(name="flaky", retry=Fixed(3600))
    async def flaky(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise OSError("away")
        [error] = ctx.job.errors
        assert error.at is not None
        assert datetime.now(UTC) - error.at >= timedelta(hours=1)
        return "done"

    job = await app.enqueue(flaky)
    await drain(app, raises=False)
    await drain(app, raises=False)
    assert (await app.get(job)).state == "scheduled"
    await advance(app, timedelta(hours=1))
    await drain(app)
    assert await app.wait(job) == "done"


async def test_time_passes_until_a_job_is_due(app: Penstock) -> None:
    @app.task(name="poll")
    async def poll(ctx: Context) -> Snooze | None:
        return Snooze(timedelta(days=2)) if ctx.attempt == 1 else None

    job = await app.enqueue(poll)
    await drain(app)
    await advance_to(app, (await app.get(job)).run_at)
    await drain(app)
    assert (await app.get(job)).state == "completed"
    before = await app.get(job)
    await advance_to(app, before.run_at)
    assert await app.get(job) == before


async def test_a_deadline_passes(app: Penstock) -> None:
    @app.task(name="offer")
    async def offer() -> None: ...

    hour = datetime.now(UTC) + timedelta(hours=1)
    now = await app.enqueue(offer.options(deadline=hour))
    later = await app.enqueue(offer.options(deadline=hour, delay=7200))
    await advance(app, hours=1)
    assert (await drain(app)).completed == 0
    for job in (now, later):
        found = await app.get(job)
        assert (found.state, found.reason) == ("cancelled", "expired")


async def test_an_idempotency_key_is_forgotten(app: Penstock) -> None:
    @app.task(name="once")
    async def once() -> None: ...

    first = await app.enqueue(once.options(idempotency_key="k"))
    await advance(app, days=6)
    assert (await app.enqueue(once.options(idempotency_key="k"))).id == first.id
    await advance(app, days=1)
    assert (await app.enqueue(once.options(idempotency_key="k"))).id != first.id


async def test_history_goes_after_its_time(app: Penstock) -> None:
    @app.task(name="work", max_attempts=1)
    async def work(ok: bool) -> None:
        assert ok

    good, bad = await app.enqueue(work, True), await app.enqueue(work, False)
    await drain(app, raises=False)
    finished = (await app.get(good)).finished_at
    await advance(app, days=7)
    found = await app.get(good)
    assert finished is not None
    assert found.finished_at == finished - timedelta(days=7)
    await advance(app, days=2)
    assert await app.find(good) is None
    assert (await app.get(bad)).state == "failed"
    await advance(app, days=30)
    assert await app.find(bad) is None


# A try is over, and has met the lock.
TRIED = """
SELECT count(*) > 0 FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle'
   AND query LIKE '%partitions that the history needs%'
"""


async def test_advance_retries_while_partitions_cannot_be_made(
    app: Penstock, database: Database, connection: asyncpg.Connection
) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    await app.set_retention("completed", 60)
    job = await app.enqueue(work)
    await drain(app)
    before = await app.get(job)
    async with database.connect() as other:
        held = other.transaction()
        await held.start()
        # As who detaches a partition holds it.
        await other.execute("LOCK TABLE penstock.job_history IN SHARE UPDATE EXCLUSIVE MODE")
        advancing = asyncio.create_task(advance(app, days=1))
        await until(lambda: connection.fetchval(TRIED), what="a try that met the lock")
        await held.rollback()
        await advancing
    after = await app.get(job)
    assert before.finished_at is not None
    assert after.finished_at == before.finished_at - timedelta(days=1)


async def test_a_job_left_unknown_long_enough_fails(app: Penstock) -> None:
    other = Penstock(app.url)

    @other.task(name="elsewhere")
    async def elsewhere() -> None: ...

    job = await app.enqueue(elsewhere)
    await drain(app, raises=False)
    assert (await app.get(job)).reason == "unknown_task"
    await advance(app, days=1)
    await drain(app, raises=False)
    found = await app.get(job)
    assert (found.state, found.reason) == ("failed", "unknown_task")


async def test_a_worker_that_runs_is_told(app: Penstock) -> None:
    ran = asyncio.Event()

    @app.task(name="remind")
    async def remind() -> None:
        ran.set()

    # So slow that without being told it would look again only after the test's patience.
    async with worker_of(app, poll=60, rescan=60, promote_most=60) as worker:
        await app.enqueue(remind.options(delay=3600))
        await until(lambda: queue_state(worker).is_scanned)
        await advance(app, hours=1)
        async with asyncio.timeout(30):
            await ran.wait()


async def test_every_moment_that_the_queue_keeps_moves(connection: asyncpg.Connection) -> None:
    text = sql.statement("advance_time", "penstock")
    names = [row["name"] for row in await connection.fetch(MOMENTS)]
    assert len(names) > 20
    for name in names:
        table, column = name.split(".")
        if not name.startswith(STAY):
            start = text.index(f'UPDATE "penstock".{table} AS')
            assert f"{column} =" in text[start : text.index("\n)", start)], f"{name} stays"


async def test_all_moments_of_a_job_move_together(app: Penstock) -> None:
    @app.task(name="flaky", max_attempts=2)
    async def flaky() -> None:
        raise OSError("away")

    live = await app.enqueue(flaky.options(deadline=datetime.now(UTC) + timedelta(days=2)))
    final = await app.enqueue(flaky.options(max_attempts=1))
    await drain(app, raises=False)
    before = [_moments(await app.get(job)) for job in (live, final)]
    await advance(app, hours=30)
    after = [_moments(await app.get(job)) for job in (live, final)]
    assert len(before[0]) >= 6
    for earlier, later in zip(before, after, strict=True):
        assert {name: at - timedelta(hours=30) for name, at in earlier.items()} == later


def _moments(job: Job) -> dict[str, datetime]:
    """Every time that a job tells, those of its errors included."""
    told = [("", job), *((f"errors[{number}].", error) for number, error in enumerate(job.errors))]
    return {
        f"{place}{name}": value
        for place, owner in told
        for name, value in msgspec.structs.asdict(owner).items()
        if isinstance(value, datetime)
    }


async def test_time_does_not_go_back(app: Penstock) -> None:
    with pytest.raises(ConfigError, match="time that passes"):
        await advance(app, seconds=-1)
    with pytest.raises(ConfigError, match="a datetime with a time zone"):
        await advance_to(app, datetime(2030, 1, 1))
