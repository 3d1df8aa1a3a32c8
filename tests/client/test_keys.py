"""Idempotency keys: asking twice stores once."""

import asyncio

import asyncpg
import pytest

from penstock import Penstock
from penstock.errors import IdempotencyMismatch
from tests.fixtures.worker import worker_of


@pytest.fixture
def greet(app: Penstock):
    @app.task(name="greet")
    async def greet(name: str, title: str = "") -> str:
        return f"Hello, {title}{name}"

    return greet


async def test_the_same_key_gives_the_same_job(app: Penstock, greet) -> None:
    keyed = greet.options(idempotency_key="k")
    first = await app.enqueue(keyed, "Ada")
    second = await app.enqueue(keyed, "Ada")
    assert (first.duplicate, second.duplicate) == (False, True)
    assert second.id == first.id
    assert len((await app.list()).jobs) == 1


async def test_a_key_outlives_its_job(app: Penstock, greet) -> None:
    keyed = greet.options(idempotency_key="k")
    first = await app.enqueue(keyed, "Ada")
    await worker_of(app).drain(seconds=10)
    again = await app.enqueue(keyed, "Ada")
    assert (again.id, again.duplicate) == (first.id, True)
    assert (await app.get(again)).state == "completed"


async def test_a_deleted_job_gives_its_key_back(app: Penstock, greet) -> None:
    keyed = greet.options(idempotency_key="k")
    first = await app.enqueue(keyed, "Ada")
    await app.delete(first)
    again = await app.enqueue(keyed, "Ada")
    assert again.id != first.id
    assert not again.duplicate


async def test_key_with_other_arguments_raises_with_the_job(app: Penstock, greet) -> None:
    keyed = greet.options(idempotency_key="k")
    first = await app.enqueue(keyed, "Ada")
    with pytest.raises(IdempotencyMismatch) as caught:
        await app.enqueue(keyed, "Bob")
    assert (caught.value.key, caught.value.job_id) == ("k", first.id)


async def test_a_key_with_another_task_is_an_error(app: Penstock, greet) -> None:
    @app.task
    async def other(name: str, title: str = "") -> None: ...

    await app.enqueue(greet.options(idempotency_key="k"), "Ada")
    with pytest.raises(IdempotencyMismatch):
        await app.enqueue(other.options(idempotency_key="k"), "Ada")


async def test_each_tenant_has_keys_of_its_own(app: Penstock, greet) -> None:
    jobs = [
        await app.enqueue(greet.options(idempotency_key="k", tenant=tenant), tenant)
        for tenant in ("acme", "zeta", "")
    ]
    assert len({job.id for job in jobs}) == 3


async def test_a_key_twice_in_one_call_stores_one_job(app: Penstock, greet) -> None:
    keyed = greet.options(idempotency_key="k")
    requests = [keyed.prepare("Ada"), greet.prepare("Bob"), keyed.prepare("Ada")]
    first, other, second = await app.enqueue_many(requests)
    assert first.id == second.id != other.id
    assert [one.duplicate for one in (first, other, second)] == [False, False, True]
    assert (await app.get(other)).args["name"] == "Bob"
    assert len((await app.list()).jobs) == 2


async def test_many_keys_in_one_call_are_answered_in_order(app: Penstock, greet) -> None:
    held = await app.enqueue(greet.options(idempotency_key="k1"), "1")
    enqueued = await app.enqueue_many(
        greet.options(idempotency_key=f"k{n}").prepare(str(n)) for n in range(3)
    )
    assert [one.duplicate for one in enqueued] == [False, True, False]
    assert enqueued[1].id == held.id
    assert [(await app.get(one)).args["name"] for one in enqueued] == ["0", "1", "2"]


async def test_of_many_at_once_with_one_key_one_stores(
    app: Penstock, greet, connection: asyncpg.Connection
) -> None:
    keyed = greet.options(idempotency_key="k")
    enqueued = await asyncio.gather(*(app.enqueue(keyed, "Ada") for _ in range(8)))
    assert len({one.id for one in enqueued}) == 1
    assert sum(not one.duplicate for one in enqueued) == 1
    assert await connection.fetchval("SELECT count(*) FROM penstock.job") == 1
