"""Enqueueing inside the caller's own transaction."""

import asyncpg
import pytest

from penstock import Penstock
from penstock.errors import IdempotencyMismatch, JobNotFound
from tests.fixtures.database import Database
from tests.fixtures.notifications import hearing
from tests.fixtures.worker import reaches, worker_of


@pytest.fixture
def greet(app: Penstock):
    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    return greet


async def test_a_job_is_gone_with_the_transaction_that_was_rolled_back(
    app: Penstock, greet, connection: asyncpg.Connection
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    enqueued = await app.inside(connection).enqueue(greet, "Ada")
    assert (await app.inside(connection).get(enqueued)).state == "ready"
    await transaction.rollback()
    with pytest.raises(JobNotFound):
        await app.get(enqueued)


async def test_a_job_exists_for_others_once_the_transaction_commits(
    app: Penstock, greet, connection: asyncpg.Connection
) -> None:
    async with connection.transaction():
        enqueued = await app.inside(connection).enqueue(greet, "Ada")
        assert await app.find(enqueued) is None
    assert (await app.get(enqueued)).state == "ready"


async def test_the_commit_wakes_the_workers(
    app: Penstock, greet, connection: asyncpg.Connection
) -> None:
    async with worker_of(app, rescan=3600, poll=3600):
        async with connection.transaction():
            enqueued = await app.inside(connection).enqueue(greet, "Ada")
        assert await app.wait(enqueued, timeout=30) == "Hello, Ada"


async def test_without_notify_the_workers_find_it_by_looking(
    app: Penstock, greet, connection: asyncpg.Connection, database: Database
) -> None:
    async with hearing(database) as heard, worker_of(app, rescan=0.2):
        quiet = app.inside(connection, notify=False)
        async with connection.transaction():
            enqueued = await quiet.enqueue(greet, "Ada")
        await reaches(app, enqueued, "completed")
        assert await heard.all() == []


async def test_one_transaction_sends_one_notification_for_each_line(
    app: Penstock, greet, connection: asyncpg.Connection, database: Database
) -> None:
    async with hearing(database) as heard:
        async with connection.transaction():
            await app.inside(connection).enqueue_many(
                [greet.options(queue=queue).prepare("x") for queue in ("a", "b", "a")]
            )
        assert len(await heard.all()) == 2


async def test_transaction_notifies_once_per_queue_and_priority(
    app: Penstock, greet, connection: asyncpg.Connection, database: Database
) -> None:
    async with hearing(database) as heard:
        async with connection.transaction():
            inside = app.inside(connection)
            for number in range(50):
                await inside.enqueue(greet, str(number))
        assert len(await heard.all()) == 1


async def test_an_idempotency_key_holds_inside_too(
    app: Penstock, greet, connection: asyncpg.Connection
) -> None:
    keyed = greet.options(idempotency_key="k")
    async with connection.transaction():
        first = await app.inside(connection).enqueue(keyed, "Ada")
        second = await app.inside(connection).enqueue(keyed, "Ada")
    assert (second.id, second.duplicate) == (first.id, True)
    with pytest.raises(IdempotencyMismatch):
        await app.inside(connection).enqueue(keyed, "Bob")


async def test_every_call_works_inside(
    app: Penstock, greet, connection: asyncpg.Connection
) -> None:
    inside = app.inside(connection)
    async with connection.transaction():
        enqueued = await inside.enqueue(greet.options(delay=60), "Ada")
        assert (await inside.states([enqueued]))[enqueued.id].state == "scheduled"
        assert [job.id for job in (await inside.list()).jobs] == [enqueued.id]
        await inside.retry(enqueued)
        assert await inside.cancel(enqueued)
        await inside.delete(enqueued)
        assert await inside.find(enqueued) is None
