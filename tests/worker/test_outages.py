"""The database goes away and comes back; the worker goes on."""

import asyncio
import logging

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.store import receives_notifications
from penstock.telemetry import DatabaseBack, DatabaseGone
from penstock.worker.settle.settler import PASSING_TRIES
from tests.fixtures.database import Database, connected
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import (
    asked,
    change_liveness,
    counted,
    cut_connections,
    end_leases,
    gathered,
    listening,
    pool_of,
    worker_of,
    worker_state,
)

CUT_ALL_BUT_THIS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@pytest.mark.direct(
    "the server cannot tell a worker's connections from PgBouncer's; "
    "tests/pgbouncer/test_outages.py cuts those instead"
)
@pytest.mark.parametrize("kind", ["penstock worker", "penstock heartbeat", "penstock listener"])
async def test_a_worker_survives_the_loss_of_any_of_its_connections(
    app: Penstock, database: Database, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow(ctx: Context) -> int:
        begun.set()
        await go_on.wait()
        return ctx.attempt

    worker = worker_of(app)
    async with worker:
        await listening(worker)
        running = await app.enqueue(slow)
        await begun.wait()
        with caplog.at_level(logging.WARNING, "penstock"):
            for _ in range(3):
                await cut_connections(database.admin_url, kind)
            await until(lambda: connected_again(database, kind), what="a new connection")
        go_on.set()
        assert await app.wait(running, timeout=30) == 1
        assert await app.wait(await app.enqueue(slow), timeout=30) == 1
    said = [record for record in caplog.records if "does not answer" in record.getMessage()]
    assert len(said) <= 3


async def connected_again(database: Database, kind: str) -> bool:
    async with connected(database.admin_url) as admin:
        return bool(
            await admin.fetchval(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = $1",
                kind,
            )
        )


@pytest.mark.told
async def test_the_listener_looks_around_after_it_was_away(
    app: Penstock, database: Database
) -> None:
    """What it was not told meanwhile must not wait for the next rescan."""

    @app.task
    async def note() -> str:
        return "done"

    worker = worker_of(app, rescan=3600, poll=3600)
    async with worker:
        await listening(worker)
        async with database.connect() as connection:
            quiet = app.inside(connection, notify=False)
            enqueued = await quiet.enqueue(note)
        await cut_connections(database.admin_url, "penstock listener")
        assert await app.wait(enqueued, timeout=30) == "done"


async def test_an_outage_is_told_once_and_its_end_once(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with Penstock(proxy.url) as far:
        gone, back = gathered(far, DatabaseGone), gathered(far, DatabaseBack)

        @far.task
        async def note() -> str:
            return "done"

        async with worker_of(far, lease=60, heartbeat=1):
            assert await far.wait(await far.enqueue(note), timeout=30) == "done"
            with caplog.at_level(logging.WARNING, "penstock"):
                proxy.refuse()
                await until(lambda: gone, what="the outage to be noticed")
                # Long enough for every service to fail more than once.
                for _ in range(30):
                    await asyncio.sleep(0.02)
                assert len(gone) == 1
                assert back == []
                proxy.heal()
                await until(lambda: back, what="its end to be noticed")
            assert await far.wait(await far.enqueue(note), timeout=30) == "done"
        # An outage of a second or more is told by the heartbeat, too: its lease is at stake.
        told = [each.getMessage() for each in caplog.records if each.name != "penstock.heartbeat"]
        assert sum("does not answer" in message for message in told) == 1
        assert sum("answers again" in message for message in told) == 1


async def test_job_survives_an_outage_shorter_than_the_lease(proxy: Proxy) -> None:
    async with Penstock(proxy.url) as far:
        begun, go_on = asyncio.Event(), asyncio.Event()

        @far.task
        async def slow(ctx: Context) -> int:
            begun.set()
            await go_on.wait()
            return ctx.attempt

        async with worker_of(far, heartbeat=0.2):
            enqueued = await far.enqueue(slow)
            await begun.wait()
            proxy.refuse()
            go_on.set()
            for _ in range(10):
                await asyncio.sleep(0.02)
            proxy.heal()
            assert await far.wait(enqueued, timeout=30) == 1


async def test_a_server_without_free_connections_is_an_outage_too(
    app: Penstock, database: Database
) -> None:
    gone, back = gathered(app, DatabaseGone), gathered(app, DatabaseBack)

    @app.task
    async def note() -> str:
        return "done"

    async with worker_of(app, lease=60, heartbeat=1), connected(database.admin_url) as admin:

        async def is_gone() -> bool:
            # All of them, again and again: one that was about to connect may have been let in, and
            # behind PgBouncer any of its connections to the server would still do.
            await admin.execute(CUT_ALL_BUT_THIS)
            return bool(gone)

        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0")
        await until(is_gone, what="the outage to be noticed")
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
        await until(lambda: back, what="its end to be noticed")
        assert await app.wait(await app.enqueue(note), timeout=30) == "done"


async def test_outcomes_wait_while_the_database_is_read_only(
    app: Penstock,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after a failover to a standby that is promoted later. Each job runs once, and the phase is
    told once."""
    go_on = asyncio.Event()
    runs: list[int] = []

    @app.task
    async def slow(ctx: Context, number: int) -> int:
        runs.append(number)
        await go_on.wait()
        ctx.progress(1, 1)
        return ctx.attempt

    worker = worker_of(app, {"default": 20}, lease=600, settle_retry=0.01)
    async with worker:
        jobs = await app.enqueue_many(slow.prepare(number) for number in range(15))
        await until(lambda: len(worker_state(worker).running) == 15, what="all to run")
        with caplog.at_level(logging.WARNING, "penstock"):
            beats = counted(app, "heartbeat")
            await make_read_only(database, True)
            go_on.set()
            tries = asked(app, "settle")
            await until(lambda: len(tries) > PASSING_TRIES, what="many tries")
            assert worker_state(worker).unsettled == 15
            # What was connected meanwhile stays read-only, but nothing else is ended here.
            await make_read_only(database, False, cut=database.url != database.direct_url)
            for job in jobs:
                assert await app.wait(job, timeout=30) == 1
            before = len(beats)
            await until(lambda: len(beats) > before, what="the heartbeat to go on")
            await until(lambda: "answers again" in caplog.text, what="the end to be told")
    assert sorted(runs) == list(range(15))
    # A heartbeat that is short for a test may tell of a slow machine besides.
    told = [record.message for record in caplog.records if record.name != "penstock.heartbeat"]
    assert len(told) == 2, told


REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the history is closed'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON penstock.job_history
    FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""


async def test_worker_writes_kept_outcomes_before_it_rescues(
    app: Penstock, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """After an outage that was longer than the lease, where this worker is the first to rescue."""
    go_on = asyncio.Event()
    runs: list[int] = []

    @app.task
    async def slow(number: int) -> int:
        runs.append(number)
        await go_on.wait()
        return number

    worker = worker_of(app, {"default": 20}, lease=60, unwritten_retry=3600)
    async with worker:
        jobs = await app.enqueue_many(slow.prepare(number) for number in range(10))
        await until(lambda: len(runs) == 10, what="all to run")
        async with connected(database.direct_url) as connection:
            await connection.execute(REFUSE)
            go_on.set()
            await until(lambda: worker_state(worker).refused == 10, what="the outcomes to be kept")
            # They would be tried again in some minutes.
            await connection.execute("DROP TRIGGER refuse ON penstock.job_history")
        await make_read_only(database, True)
        # The time of the lease passes, here and there.
        async with connected(database.admin_url) as admin:
            await admin.execute("SET default_transaction_read_only = off")
            await end_leases(admin)
        change_liveness(worker, lease=0.5)
        await until(lambda: worker_state(worker).lease is None, what="the worker to notice")
        change_liveness(worker, now=False, lease=60.0)
        await make_read_only(database, False)
        for number, job in enumerate(jobs):
            assert await app.wait(job, timeout=60) == number
            assert (await app.get(job)).attempt == 1
    assert sorted(runs) == list(range(10))
    assert "Took back" not in caplog.text


async def make_read_only(database: Database, is_read_only: bool, *, cut: bool = True) -> None:
    setting = "SET default_transaction_read_only = on" if is_read_only else "RESET ALL"
    async with connected(database.admin_url) as admin:
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(f"ALTER DATABASE {database.name} {setting}")
        if cut:
            await admin.execute(CUT_ALL_BUT_THIS)


async def test_worker_goes_on_once_its_exhausted_pool_is_free(app: Penstock) -> None:
    @app.task
    async def note() -> str:
        return "done"

    worker = worker_of(app, lease=60, heartbeat=1)
    async with worker:
        pool = pool_of(worker)
        held = [await pool.acquire() for _ in range(pool.get_max_size())]
        enqueued = await app.enqueue(note)
        assert (await app.get(enqueued)).state == "ready"
        for each in held:
            await pool.release(each)
        assert await app.wait(enqueued, timeout=30) == "done"


async def test_an_app_with_one_connection_serves_many_callers(database: Database) -> None:
    async with Penstock(database.url, pool_size=1) as app:

        @app.task
        async def note(number: int) -> int:
            return (await app.get(first)).args["number"] + number

        first = await app.enqueue(note, 0)
        async with worker_of(app):
            jobs = await asyncio.gather(*(app.enqueue(note, n) for n in range(50)))
            results = await asyncio.gather(*(app.wait(job, timeout=30) for job in jobs))
        assert results == list(range(50))


async def test_a_worker_cannot_start_on_a_database_without_the_schema(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute("DROP SCHEMA penstock CASCADE")
    with pytest.raises(Exception, match="penstock migrate"):
        await Penstock(database.url).worker().start()


async def test_connection_lost_before_its_echo_raises(database: Database) -> None:
    class Cutting:
        """Others whose notification never comes: the listening session is ended instead."""

        async def execute(self, _: str) -> None:
            await cut_connections(database.admin_url, "echo")

    listening = await asyncpg.connect(
        database.direct_url, server_settings={"application_name": "echo"}
    )
    with pytest.raises(ConnectionResetError, match="test notification"):
        await receives_notifications(listening, Cutting())  # type: ignore[arg-type]
