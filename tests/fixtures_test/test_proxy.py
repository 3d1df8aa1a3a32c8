"""The network between a client and Postgres does what the fault tests rely on."""

import asyncio

import asyncpg
import pytest

from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until

GONE = (ConnectionError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)


@pytest.fixture
async def through(database: Database, proxy: Proxy):
    """A connection through the proxy, and a table to write into."""
    async with database.connect() as direct:
        await direct.execute("CREATE TABLE written (number int)")
    connection = await asyncpg.connect(proxy.url)
    yield connection
    connection.terminate()


async def numbers(database: Database) -> list[int]:
    async with database.connect() as direct:
        rows = await direct.fetch("SELECT number FROM written ORDER BY number")
    return [row["number"] for row in rows]


async def test_everything_passes_while_nothing_is_wrong(through, database):
    await through.execute("INSERT INTO written VALUES (1)")
    await through.executemany("INSERT INTO written VALUES ($1)", [(2,), (3,)])
    await through.copy_records_to_table("written", records=[(4,), (5,)])
    assert [row["number"] for row in await through.fetch("TABLE written")] == [1, 2, 3, 4, 5]
    assert len(await through.fetchval("SELECT repeat('x', 3000000)")) == 3_000_000


async def test_notifications_pass(through, database):
    heard = asyncio.get_running_loop().create_future()
    await through.add_listener("news", lambda *args: heard.set_result(args[3]))
    async with database.connect() as direct:
        await direct.execute("NOTIFY news, 'hello'")
    assert await asyncio.wait_for(heard, 30) == "hello"


async def test_a_query_can_be_cancelled_through_the_proxy(through):
    with pytest.raises(TimeoutError):
        await through.execute("SELECT pg_sleep(60)", timeout=0.2)
    assert await through.fetchval("SELECT 1") == 1


async def test_a_cut_resets_what_is_open_and_lets_new_connections_in(through, proxy):
    proxy.cut()
    with pytest.raises(GONE):
        await through.execute("SELECT 1")
    again = await asyncpg.connect(proxy.url)
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


async def test_refused_clients_are_reset_until_the_network_heals(through, proxy):
    proxy.refuse()
    with pytest.raises(GONE):
        await through.execute("SELECT 1")
    with pytest.raises(GONE):
        await asyncpg.connect(proxy.url)
    proxy.heal()
    again = await asyncpg.connect(proxy.url)
    await again.close()


async def test_swallowed_request_is_served_once_the_network_heals(through, proxy, database):
    proxy.swallow("to_server")
    writing = asyncio.create_task(through.execute("INSERT INTO written VALUES (1)"))
    with pytest.raises(TimeoutError):
        await until(lambda: numbers(database), timeout=0.2)
    assert not writing.done()
    proxy.heal()
    await writing
    assert await numbers(database) == [1]


async def test_swallowed_reply_hides_that_the_work_is_done(through, proxy, database):
    proxy.swallow("to_client")
    writing = asyncio.create_task(through.execute("INSERT INTO written VALUES (1)"))
    await until(lambda: numbers(database), what="the row to be written")
    assert not writing.done()
    proxy.heal()
    await writing


async def test_swallowing_both_ways_hides_a_closed_connection(through, proxy, database):
    server_pid = through.get_server_pid()
    async with database.connect() as direct:

        async def ended() -> bool:
            alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
            return await direct.fetchval(alive, server_pid) == 0

        proxy.swallow()
        through.terminate()
        with pytest.raises(TimeoutError):
            await until(ended, timeout=0.2)
        proxy.heal()
        await until(ended)


async def test_a_new_connection_into_a_swallowing_network_hangs(proxy):
    proxy.swallow()
    with pytest.raises(TimeoutError):
        await asyncpg.connect(proxy.url, timeout=0.2)


async def test_the_reply_to_a_commit_is_lost_and_the_commit_is_kept(through, proxy, database):
    lost = proxy.drop_reply_after("COMMIT")
    transaction = through.transaction()
    await transaction.start()
    await through.execute("INSERT INTO written VALUES (1)")
    with pytest.raises(GONE):
        await transaction.commit()
    assert await lost.wait() == "COMMIT;"
    assert await numbers(database) == [1]


async def test_reply_to_the_nth_use_of_a_statement_is_dropped(through, proxy, database):
    insert = await through.prepare("INSERT INTO written VALUES ($1)")
    lost = proxy.drop_reply_after("insert into written", nth=3)
    await insert.fetch(1)
    await insert.fetch(2)
    with pytest.raises(GONE):
        await insert.fetch(3)
    await lost.wait()
    assert await numbers(database) == [1, 2, 3]


async def test_preparing_a_statement_does_not_count_as_executing_it(through, proxy):
    lost = proxy.drop_reply_after("SELECT 42")
    statement = await through.prepare("SELECT 42")
    with pytest.raises(GONE):
        await statement.fetchval()
    await lost.wait()


async def test_the_reply_to_a_copy_is_lost_after_its_rows_are_written(through, proxy, database):
    lost = proxy.drop_reply_after(lambda sql: sql.startswith("COPY"))
    with pytest.raises(GONE):
        await through.copy_records_to_table("written", records=[(1,), (2,)])
    await lost.wait()
    assert await numbers(database) == [1, 2]


async def test_a_reply_that_is_lost_leaves_other_connections_alone(through, proxy, database):
    other = await asyncpg.connect(proxy.url)
    lost = proxy.drop_reply_after("INSERT")
    with pytest.raises(GONE):
        await through.execute("INSERT INTO written VALUES (1)")
    await lost.wait()
    assert await other.fetchval("SELECT count(*) FROM written") == 1
    await other.close()
