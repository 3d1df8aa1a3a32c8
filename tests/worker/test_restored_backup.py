"""An older backup is restored in place while workers live: nothing is shared that was given out."""

import asyncio

import asyncpg

from penstock import Penstock
from penstock.telemetry import LeaseLapsed
from tests.fixtures.until import until
from tests.fixtures.worker import gathered, ghost, lease_held, queue_state, worker_of, worker_state

TABLES = ("job", "lease", "queue", "setting_version")
SEQUENCES = """
SELECT format('%I.%I', schemaname, sequencename) AS name, last_value FROM pg_sequences
WHERE schemaname = 'penstock'
"""


class Backup:
    """What the tables hold at one moment, with the values of all sequences."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._rows: dict[str, list[str]] = {}
        self._sequences: list[asyncpg.Record] = []

    async def take(self) -> None:
        for table in TABLES:
            rows = await self._connection.fetch(
                f"SELECT to_jsonb(t) AS row FROM penstock.{table} t"
            )
            self._rows[table] = [row["row"] for row in rows]
        self._sequences = await self._connection.fetch(SEQUENCES)

    async def restore(self) -> None:
        for table, rows in self._rows.items():
            await self._connection.execute(f"DELETE FROM penstock.{table}")
            await self._connection.execute(
                f"INSERT INTO penstock.{table} SELECT t.* FROM unnest($1::jsonb[]) AS r (row), "
                f"jsonb_populate_record(NULL::penstock.{table}, r.row) AS t",
                rows,
            )
        for sequence in self._sequences:
            value = sequence["last_value"]
            await self._connection.execute(
                "SELECT setval($1::text::regclass, $2, $3)",
                sequence["name"],
                value or 1,
                value is not None,
            )


async def test_worker_notices_that_its_lease_is_not_in_the_backup(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    cancelled = 0

    @app.task(name="wait")
    async def wait() -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    jobs = [int(job.id) for job in await app.enqueue_many(wait.prepare() for _ in range(4))]
    backup = Backup(connection)
    await backup.take()
    lapsed = gathered(app, LeaseLapsed)
    async with worker_of(app, heartbeat=0.25, cancel=0.1, finish=0.1, rescue=3600) as worker:
        await until(lambda: len(worker_state(worker).running) == 4, what="all to run")
        first = worker_state(worker).lease

        # At one go: from its first look on, the worker sees that another has a lease and the jobs.
        async with connection.transaction():
            await backup.restore()
            assert await ghost(connection, seconds=3600) == jobs

        await until(lambda: cancelled == 4 and lapsed, what="the worker to stop its jobs")
        second = await lease_held(worker)
        assert lapsed[0].lease == first != second
    rows = await connection.fetch(
        "SELECT j.id, j.attempt, l.worker FROM penstock.job AS j "
        "JOIN penstock.lease AS l ON l.id = j.lease WHERE j.state = 'running' ORDER BY j.id"
    )
    assert [tuple(row) for row in rows] == [(job, 1, "ghost") for job in jobs]


async def test_worker_rereads_rules_when_a_restore_repeats_a_version(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    backup = Backup(connection)
    await backup.take()
    await app.pause("default")
    async with worker_of(app, heartbeat=0.25, rescue=3600) as worker:
        assert not queue_state(worker).is_open

        async with connection.transaction():
            await backup.restore()
            # Further changes have raised the version to the one that the worker knows.
            known = worker_state(worker).rules_version
            await connection.execute("UPDATE penstock.setting_version SET version = $1", known)

        await until(lambda: queue_state(worker).is_open, what="the rules to be read")


async def test_lease_ids_are_exact_in_json_and_never_come_again(
    connection: asyncpg.Connection,
) -> None:
    leases = await connection.fetch(
        "SELECT penstock.open_lease_v1('w', 60) AS id FROM generate_series(1, 1000)"
    )
    ids = {row["id"] for row in leases}
    assert len(ids) == 1000
    assert all(0 < each <= 2**53 for each in ids)
    assert max(ids) > 2**40
