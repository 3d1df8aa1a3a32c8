"""Unique jobs as a caller sees them."""

import asyncio
from typing import Any

import asyncpg
import pytest

from penstock import JobConflict, Penstock, Unique, UniqueConflict
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

Greet = Any


@pytest.fixture
def greet(app: Penstock) -> Greet:
    @app.task(name="greet", unique=Unique(args=["name"]))
    async def greet(name: str, title: str = "") -> str:
        return f"Hello, {title}{name}"

    return greet


async def test_a_second_one_is_the_first_until_that_has_ended(app: Penstock, greet: Greet) -> None:
    first = await app.enqueue(greet, "Ada")
    again = await app.enqueue(greet, "Ada", title="Dr ")
    other = await app.enqueue(greet, "Bo")
    assert (again.id, again.duplicate) == (first.id, True)
    assert (other.duplicate, first.duplicate) == (False, False)
    assert (await app.get(first)).args == {"name": "Ada"}
    await worker_of(app).drain(seconds=10)
    assert not (await app.enqueue(greet, "Ada")).duplicate


async def test_a_conflict_names_the_key_and_the_job(app: Penstock, greet: Greet) -> None:
    strict = greet.options(unique=Unique(key="greet:{name}", on_conflict="raise"))
    first = await app.enqueue(strict, "Ada")
    with pytest.raises(UniqueConflict, match=f"'greet:Ada' is held by job {first.id}") as caught:
        await app.enqueue(strict, "Ada")
    assert (caught.value.key, caught.value.job_id) == ("greet:Ada", first.id)
    with pytest.raises(
        UniqueConflict, match=r"given to two jobs of one call\. Leave one of them out"
    ):
        await app.enqueue_many([strict.prepare("Bo"), strict.prepare("Bo")])


async def test_a_retry_that_is_refused_says_who_holds_the_key(app: Penstock, greet: Greet) -> None:
    first = await app.enqueue(greet, "Ada")
    await app.cancel(first)
    second = await app.enqueue(greet, "Ada")
    with pytest.raises(JobConflict, match=f"Job {second.id} holds its unique key"):
        await app.retry(first)
    await app.cancel(second)
    await app.retry(first)
    assert (await app.enqueue(greet, "Ada")).id == first.id


async def test_in_a_transaction_it_is_one_job_with_those_of_others(
    app: Penstock, greet: Greet, connection: asyncpg.Connection
) -> None:
    async with connection.transaction():
        first = await app.inside(connection).enqueue(greet, "Ada")
        waiting = asyncio.create_task(app.enqueue(greet, "Ada"))
        again = await app.inside(connection).enqueue(greet, "Ada")
        await until(lambda: is_waited_for(connection), what="the other to wait")
    assert (again.id, again.duplicate) == (first.id, True)
    assert (await waiting).id == first.id


async def is_waited_for(connection: asyncpg.Connection) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted "
            "AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
        )
    )


async def test_a_statement_of_unique_jobs_says_which_were_there(
    app: Penstock, greet: Greet, connection: asyncpg.Connection
) -> None:
    first = await app.enqueue(greet, "Ada")
    sql, parameters = app.statement(greet.prepare("Ada"), greet.prepare("Bo"))
    row = await connection.fetchrow(sql, *parameters)
    assert row is not None
    assert row["ids"][0] == int(first.id)
    assert row["duplicates"] == [True, False]


@pytest.mark.told
async def test_job_held_by_an_open_transaction_runs_at_its_commit(
    app: Penstock, greet: Greet, connection: asyncpg.Connection
) -> None:
    """Claims pass it meanwhile: the commit wakes them."""
    waits = greet.options(unique=Unique(key="greet", hold="waiting"))
    first = await app.enqueue(waits, "Ada")
    async with connection.transaction():
        assert (await app.inside(connection).enqueue(waits, "Ada")).id == first.id
        async with worker_of(app, rescan=3600, poll=3600):
            plain = await app.enqueue(greet.options(unique=None), "Bo")
            assert await app.wait(plain, timeout=30) == "Hello, Bo"
            assert (await app.get(first)).state == "ready"
            await connection.execute("COMMIT")
            assert await app.wait(first, timeout=30) == "Hello, Ada"
        await connection.execute("BEGIN")
