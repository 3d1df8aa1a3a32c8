"""An enqueue whose answer is lost, and other trouble with the database."""

import asyncio
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.errors import DatabaseError, DatabaseLost, SchemaMissing
from tests.fixtures.database import Database, connected
from tests.fixtures.proxy import Proxy
from tests.fixtures.worker import cut_connections


@pytest.fixture
async def far(proxy: Proxy):
    """An app behind a network that fails."""
    async with Penstock(proxy.url) as app:
        yield app


@pytest.fixture
def greet(far: Penstock):
    @far.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    return greet


async def test_with_a_key_a_lost_answer_is_asked_for_again(
    far: Penstock, greet, proxy: Proxy, connection: asyncpg.Connection
) -> None:
    lost = proxy.drop_reply_after("enqueue_v1")
    enqueued = await far.enqueue(greet.options(idempotency_key="k"), "Ada")
    await lost.wait()
    rows = await connection.fetch("SELECT id FROM penstock.job")
    assert [str(row["id"]) for row in rows] == [enqueued.id]


def one_of_many(client: Any, request: Any) -> Any:
    async def enqueue() -> Any:
        [enqueued] = await client.enqueue_many([request])
        return enqueued

    return enqueue()


@pytest.mark.parametrize("has_key_before", [True, False])
@pytest.mark.parametrize("how", ["enqueue", "enqueue_many", "batch", "sync", "tenant"])
async def test_job_is_a_duplicate_after_a_lost_reply(
    far: Penstock, greet, proxy: Proxy, how: str, has_key_before: bool
) -> None:
    task = greet.options(idempotency_key="k", tenant="acme")
    batch = await far.open_batch(tenant="acme")
    if has_key_before:
        await far.enqueue(task, "Ada")
    # As a tenant it is a transaction, which a connection that breaks before its end takes back.
    lost = proxy.drop_reply_after("COMMIT" if how == "tenant" else "enqueue_v1")
    match how:
        case "enqueue":
            enqueued = await far.enqueue(task, "Ada")
        case "enqueue_many":
            enqueued = await one_of_many(far, task.prepare("Ada"))
        case "batch":
            enqueued = await one_of_many(batch, task.prepare("Ada"))
        case "sync":
            enqueued = await asyncio.to_thread(far.sync.enqueue, task, "Ada")
        case _:
            enqueued = await far.for_tenant("acme").enqueue(task, "Ada")
    await lost.wait()
    assert enqueued.duplicate


async def test_without_a_key_a_lost_answer_is_an_error_that_says_so(
    far: Penstock, greet, proxy: Proxy, connection: asyncpg.Connection
) -> None:
    lost = proxy.drop_reply_after("enqueue_v1")
    with pytest.raises(DatabaseLost, match=r"may or may not have been stored.*idempotency_key"):
        await far.enqueue(greet, "Ada")
    await lost.wait()
    assert await connection.fetchval("SELECT count(*) FROM penstock.job") == 1


async def test_call_with_one_unkeyed_job_is_not_repeated(
    far: Penstock, greet, proxy: Proxy, connection: asyncpg.Connection
) -> None:
    lost = proxy.drop_reply_after("enqueue_v1")
    requests = [greet.options(idempotency_key="k").prepare("Ada"), greet.prepare("Bob")]
    with pytest.raises(DatabaseLost):
        await far.enqueue_many(requests)
    await lost.wait()
    assert await connection.fetchval("SELECT count(*) FROM penstock.job") == 2


async def test_a_pool_whose_connections_were_cut_while_idle_goes_on(
    app: Penstock, database: Database
) -> None:
    @app.task
    async def greet() -> None: ...

    first = await app.enqueue(greet)
    await cut_connections(database.admin_url, "penstock")
    assert (await app.get(first)).state == "ready"
    await app.enqueue(greet)


async def test_a_database_without_the_schema_says_what_to_run(database: Database) -> None:
    async with connected(database.url) as connection:
        await connection.execute("DROP SCHEMA penstock CASCADE")
    with pytest.raises(SchemaMissing, match="penstock migrate"):
        await Penstock(database.url).open()


async def test_a_schema_that_vanishes_under_an_open_app_says_so_too(
    app: Penstock, database: Database
) -> None:
    @app.task
    async def greet() -> None: ...

    async with connected(database.url) as connection:
        await connection.execute("DROP SCHEMA penstock CASCADE")
    with pytest.raises(SchemaMissing):
        await app.enqueue(greet)
    with pytest.raises(SchemaMissing):
        await app.get("1")


async def test_looking_survives_a_lost_answer(far: Penstock, greet, proxy: Proxy) -> None:
    enqueued = await far.enqueue(greet, "Ada")
    lost = proxy.drop_reply_after("find_jobs")
    assert (await far.get(enqueued)).state == "ready"
    await lost.wait()


async def test_a_change_whose_answer_is_lost_is_an_error(
    far: Penstock, greet, proxy: Proxy
) -> None:
    enqueued = await far.enqueue(greet, "Ada")
    lost = proxy.drop_reply_after("cancel_v1")
    with pytest.raises(DatabaseLost):
        await far.cancel(enqueued)
    await lost.wait()
    assert (await far.get(enqueued)).state == "cancelled"


async def test_a_value_that_cannot_be_sent_is_no_loss_of_the_database(app: Penstock) -> None:
    with pytest.raises(DatabaseError, match="expected str, got int") as refused:
        await app.cancel("1", reason=5)  # type: ignore[arg-type]
    assert not isinstance(refused.value, DatabaseLost)
