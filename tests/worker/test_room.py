"""A server that takes no more connections when a worker starts."""

import asyncio

import pytest

from penstock import DatabaseExhausted, Penstock
from penstock.telemetry import DatabaseBack, DatabaseGone
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until
from tests.fixtures.worker import gathered, worker_of, worker_state

pytestmark = pytest.mark.direct(
    "PgBouncer keeps its connections to the server, so that a limit of new ones is not met"
)

WAITS = "waits for a connection"


def told(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if words in each.getMessage()]


@pytest.mark.parametrize("is_open_before", [False, True])
async def test_a_worker_waits_for_room_and_says_so_once(
    database: Database,
    caplog: pytest.LogCaptureFixture,
    is_open_before: bool,
) -> None:
    app = Penstock(database.url)
    gone, back = gathered(app, DatabaseGone), gathered(app, DatabaseBack)

    @app.task(name="greet")
    async def greet() -> str:
        return "hello"

    async with connected(database.admin_url) as admin:
        if is_open_before:
            await app.open()
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0")
        worker = worker_of(app, connection_retry=0.05)
        starting = asyncio.create_task(worker.start())
        await until(lambda: told(caplog, WAITS), what="the worker to say that it waits")
        assert not starting.done()
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
        await starting
        assert await app.wait(await app.enqueue(greet), timeout=60) == "hello"
        await worker.stop()
        await app.close()
    [waits] = told(caplog, WAITS)
    assert f'too many connections for database "{database.name}"' in waits
    assert told(caplog, "has a connection after")
    assert (len(gone), len(back)) == (1, 1)


async def test_start_gives_up_when_the_server_stays_full(database: Database) -> None:
    # The first pause would already be too long.
    app = Penstock(database.url)
    async with connected(database.admin_url) as admin:
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0")
        with pytest.raises(DatabaseExhausted, match="CONNECTION LIMIT"):
            await worker_of(app, start_wait=60, connection_retry=600).start()
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
    await app.close()


async def test_worker_waiting_for_a_connection_frees_its_idle_ones(database: Database) -> None:
    """Its app has the last connection, which nobody uses."""
    async with connected(database.admin_url) as admin, Penstock(database.url) as app:
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 2")
        worker = worker_of(app, connection_retry=0.05)
        starting = asyncio.create_task(worker.start())
        # It gets one, and waits for that of its heartbeat.
        await until(lambda: worker_state(worker).lease_error, what="a connection")
        assert not starting.done()
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
        await starting
        await worker.stop()


async def test_worker_takes_no_lease_without_a_heartbeat_connection(database: Database) -> None:
    """There is room for the pools and for us, and none for the heartbeat."""
    async with connected(database.admin_url) as admin, Penstock(database.url) as app:
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 3")
        worker = worker_of(app)
        starting = asyncio.create_task(worker.start())

        def has_tried() -> bool:
            return starting.done() or worker_state(worker).lease_error is not None

        await until(has_tried, what="the worker to try to take a lease")
        assert not starting.done()
        assert not await admin.fetchval("SELECT count(*) FROM penstock.lease")
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
        await starting
        assert await admin.fetchval("SELECT count(*) FROM penstock.lease") == 1
        await worker.stop()
