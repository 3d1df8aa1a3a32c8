"""A URL with several hosts: the one that serves is found, whatever the others do."""

import asyncio
import socket
from collections.abc import Iterator

import asyncpg
import pytest

from penstock import Database as Settings
from penstock import Penstock
from penstock.bench.sandbox import open_sandbox
from penstock.hosts import NoHostServes, connect
from penstock.migrate import migrate
from tests.fixtures.address import Address, with_address, with_hosts
from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until

READ_WRITE = {"target_session_attrs": "read-write"}


@pytest.fixture
def closed(database: Database) -> Iterator[str]:
    """A URL to a port of this machine that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield with_address(database.url, Address(*taken.getsockname()))


@pytest.fixture
def other(database: Database) -> Iterator[Proxy]:
    """A second way to the same database."""
    with Proxy(database.url) as other:
        yield other


async def test_a_host_that_refuses_is_passed_over(database: Database, closed: str) -> None:
    for url in (with_hosts(closed, database.url), with_hosts(database.url, closed)):
        async with Penstock(url) as app:
            assert await app.retentions() == []


async def test_each_host_is_named_with_its_reason_if_none_serves(closed: str) -> None:
    address = closed.rpartition("@")[2].partition("/")[0]
    with pytest.raises(NoHostServes) as told:
        await connect(with_hosts(closed, closed, **READ_WRITE))
    assert str(told.value).count(f"{address}: ") == 2


async def test_silent_host_costs_its_share_of_the_timeout_once(proxy: Proxy, other: Proxy) -> None:
    """As a machine that has lost its power: it does not even refuse."""
    url = with_hosts(proxy.url, other.url, **READ_WRITE)
    proxy.swallow()

    async def connects(timeout: float) -> bool:
        try:
            connection = await connect(url, timeout=timeout)
        except OSError:
            return False
        await connection.close()
        return True

    await until(lambda: connects(1.0), what="the second host to be tried")
    # It is the first to be tried from now on: with half of this for the dead one, it would not be.
    async with asyncio.timeout(30):
        assert await connects(3600.0)


async def test_the_bench_knows_which_host_serves(proxy: Proxy, other: Proxy) -> None:
    url = with_hosts(proxy.url, other.url, **READ_WRITE)
    proxy.refuse()
    connection = await connect(url)  # So that the other one is known to serve.
    await connection.close()
    proxy.heal()
    proxy.swallow()
    # asyncpg would spend its minute on the first host.
    async with asyncio.timeout(30), open_sandbox(Settings(url)) as sandbox, sandbox.held_snapshot():
        assert await sandbox.connection.fetchval("SELECT 1") == 1


async def test_a_host_that_stopped_serving_is_passed_over_again(proxy: Proxy, other: Proxy) -> None:
    url = with_hosts(proxy.url, other.url, **READ_WRITE)
    for away, serving in ((proxy, other), (other, proxy), (proxy, other)):
        serving.heal()
        away.refuse()
        connection = await connect(url)
        await connection.close()


async def test_migration_gives_up_when_its_host_freezes(
    proxy: Proxy, other: Proxy, connection: asyncpg.Connection
) -> None:
    """Another host that answers says nothing about the one with the migration."""
    url = with_hosts(proxy.url, other.url, **READ_WRITE)
    lock = "SELECT pg_advisory_xact_lock(hashtextextended(current_database() || $1, 0))"
    async with connection.transaction():
        await connection.execute(lock, ".penstock.migrate")
        migrating = asyncio.ensure_future(migrate(url, silence=0.2))

        async def waits_for_the_lock() -> bool:
            waits = (
                "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
            )
            return bool(await connection.fetchval(waits))

        await until(waits_for_the_lock, what="the migration to begin")
        proxy.swallow()
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await asyncio.wait_for(migrating, 30)


async def test_the_host_that_served_last_is_known_while_others_connect(
    proxy: Proxy, other: Proxy
) -> None:
    url = with_hosts(proxy.url, other.url, **READ_WRITE)
    proxy.refuse()
    for connected in [await connect(url)]:
        await connected.close()
    proxy.heal()
    # All at once: none of them tries the first host of the list.
    connections = await asyncio.gather(*(connect(url) for _ in range(4)))
    port = int(other.url.rpartition(":")[2].partition("/")[0])
    assert [each.served_by.port for each in connections] == [port] * 4
    for each in connections:
        await each.close()
