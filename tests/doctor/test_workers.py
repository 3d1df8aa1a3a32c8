"""Workers, their versions, resources, ears and leader, healthy and ill."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from penstock import Penstock
from tests.doctor.examined import ERROR, OK, SKIPPED, WARNING, Examined
from tests.fixtures.database import Database
from tests.fixtures.elapsed import Elapsed
from tests.fixtures.until import until
from tests.fixtures.worker import ghost, worker_of


async def worker_seen(
    connection: asyncpg.Connection, name: str, *, ago: float = 0.0, ttl: float = 60.0, **info: Any
) -> None:
    """A worker's lease as it would be if it had begun, and last been heard of, so long ago."""
    await connection.execute(
        "SELECT penstock.open_lease_v1($1, $2, $3, 'worker', now() - make_interval(secs => $4))",
        name,
        ttl,
        json.dumps(info),
        ago,
    )


async def test_a_living_worker_is_fine(app: Penstock, examined: Examined) -> None:
    async with worker_of(app, name="ada", lease=60, heartbeat=10):
        [finding] = await examined("workers")
    assert finding.verdict is OK
    assert "1 worker alive" in finding.seen
    assert "ada" in finding.seen


async def test_no_worker_is_a_warning_and_skips_worker_checks(examined: Examined) -> None:
    report = await examined.report("workers", "versions", "leader", "notifications")
    assert [result.verdict for result in report.results] == [WARNING, SKIPPED, SKIPPED, SKIPPED]
    assert report.results[0].findings[0].paste == ("penstock work APP",)


async def test_silent_worker_is_named_before_its_lease_ends(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await worker_seen(connection, "ada", ago=20)
    [finding] = await examined("workers")
    assert finding.verdict is OK
    elapsed = Elapsed()
    await worker_seen(connection, "bob", ago=40, host="cellar", pid=4711)
    [finding] = await examined("workers")
    assert finding.verdict is WARNING
    silent = re.search(r"bob \(process 4711 on cellar\) .* its lease for (\d+) s", finding.seen)
    assert silent is not None
    assert elapsed.explains(int(silent[1]) - 40, edge=1)


async def test_a_worker_that_was_lost_is_named(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await worker_seen(connection, "ada")
    await worker_seen(connection, "bob", ago=61)
    [finding] = await examined("workers")
    assert finding.verdict is WARNING
    assert "bob" in finding.seen
    assert "ada" not in finding.seen
    assert "Their jobs were taken back" in finding.remedy


async def test_a_worker_that_was_frozen_and_works_again_was_not_killed(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await worker_seen(connection, "ada", ago=61, host="a", pid=7)
    await worker_seen(connection, "ada", host="a", pid=7)
    [finding] = await examined("workers")
    assert finding.verdict is WARNING
    assert "works on under a new one: ada (process 7 on a)" in finding.seen
    assert "killed" not in finding.remedy


async def test_lost_worker_is_reported_with_its_jobs_until_rescued(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute("SELECT penstock.enqueue('shop.send')")
    assert len(await ghost(connection, seconds=0.2)) == 1

    async def remedy() -> str:
        return (await examined("workers"))[-1].remedy

    async def lost() -> bool:
        return "Something killed them" in await remedy()

    await until(lost, what="the lease to end")
    assert "They still have 1 job until a living worker takes them back" in await remedy()
    await connection.execute("SELECT penstock.rescue_v1()")
    assert "Their jobs were taken back" in await remedy()


async def test_workers_of_different_versions_are_told_apart(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    async with worker_of(app, name="ada"):
        [finding] = await examined("versions")
        assert finding.verdict is OK
        await worker_seen(connection, "bob", penstock="0.0.1")
        [finding] = await examined("versions")
    assert finding.verdict is WARNING
    assert "0.0.1: bob" in finding.seen


class Model:
    """A thing that may be away."""


def add_model(app: Penstock, *, works: bool) -> None:
    @app.resource
    @asynccontextmanager
    async def model() -> AsyncIterator[Model]:
        if not works:
            raise ConnectionError("the model server is down")
        yield Model()


async def test_missing_resource_is_named_with_its_worker_and_error(
    database: Database, app: Penstock, examined: Examined
) -> None:
    add_model(app, works=False)
    async with worker_of(app, name="ada"):
        [finding] = await examined("resources")
        assert finding.verdict is OK, "it has only just started"
        [finding] = await examined("resources", starting=0)
        assert finding.verdict is ERROR
        for word in ("Model", "ada", "ConnectionError: the model server is down"):
            assert word in finding.seen
        async with Penstock(database.url) as other:
            add_model(other, works=True)
            async with worker_of(other, name="bob"):
                [finding] = await examined("resources", starting=0)
    assert finding.verdict is WARNING, "another worker has it"
    assert "bob" not in finding.seen


async def test_resources_that_are_open_are_fine(app: Penstock, examined: Examined) -> None:
    add_model(app, works=True)
    async with worker_of(app):
        [finding] = await examined("resources", starting=0)
    assert finding.verdict is OK


async def test_a_worker_leads(app: Penstock, examined: Examined) -> None:
    async def leads() -> bool:
        [finding] = await examined("leader", leaderless=0)
        return finding.verdict is OK and "ada leads" in finding.seen

    async with worker_of(app, name="ada"):
        await until(leads, what="the worker to lead")


async def test_workers_without_a_leader_are_an_error(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await worker_seen(connection, "ada", ago=1)
    [finding] = await examined("leader")
    assert finding.verdict is OK, "the election may still be under way"
    await worker_seen(connection, "bob", ago=20)
    [finding] = await examined("leader")
    assert finding.verdict is ERROR


async def test_a_leader_whose_lease_is_gone_leads_no_more(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await worker_seen(connection, "ada", ago=20)
    await connection.execute(
        "INSERT INTO penstock.leader VALUES ('maintenance', 4711, now(), now() + interval '1 h')"
    )
    [finding] = await examined("leader")
    assert finding.verdict is ERROR


async def test_worker_without_notifications_is_named(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    async def hears() -> bool:
        [finding] = await examined("notifications", starting=0)
        return finding.verdict is OK

    async with worker_of(app):
        await until(hears, what="the worker to tell that it hears")
    await worker_seen(connection, "bob", ago=40, hears=False)
    [finding] = await examined("notifications")
    assert finding.verdict is WARNING
    assert "bob" in finding.seen
    assert "PENSTOCK_LISTEN_URL" in finding.paste[0]


async def test_a_lease_that_says_nothing_of_its_worker_does_no_harm(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await connection.execute(
        """INSERT INTO penstock.lease (worker, expires_at, info)
           VALUES ('psql', now() + interval '1 min', '{"queues": ["odd"], "pid": "none"}')"""
    )
    report = await examined.report("workers", "versions", "resources", "unserved-jobs")
    assert {result.verdict for result in report.results} == {OK}
