"""Batches under row level security."""

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from penstock import BatchNotFound, Penstock, task
from tests.fixtures.worker import worker_of
from tests.rls.conftest import Ground


@task
async def work(number: int) -> None: ...


@pytest.fixture
async def app(ground: Ground) -> AsyncIterator[Penstock]:
    async with Penstock(ground.app_url, include=[work]) as app:
        yield app


@pytest.fixture
async def owner(ground: Ground) -> AsyncIterator[Penstock]:
    async with Penstock(ground.database.direct_url, include=[work]) as owner:
        yield owner


async def test_a_tenant_has_its_own_batches_alone(ground: Ground, app: Penstock) -> None:
    a, b = app.for_tenant("a"), app.for_tenant("b")
    async with a.batch("import", on_end=work.prepare(0)) as batch:
        await batch.enqueue_many(work.prepare(number) for number in (1, 2))
    assert [each.id for each in (await a.batches()).batches] == [batch.id]
    assert (await b.batches()).batches == (await app.batches()).batches == ()
    for call in (b.get_batch, b.batch_handle, b.close_batch, b.cancel_batch, b.retry_batch):
        with pytest.raises(BatchNotFound):
            await call(batch.id)
    async with Penstock(ground.worker_url, include=[work]) as worker, worker_of(worker):
        status = await a.wait_batch(batch.id, 30)
    assert (status.completed, status.pending) == (2, 0)
    assert (await a.get(status.end_job or "")).tenant == "a"


async def test_tenant_changes_its_job_in_a_batch_without_tenant(
    app: Penstock, owner: Penstock
) -> None:
    a = app.for_tenant("a")
    async with owner.batch() as batch:
        ours = await batch.enqueue(work.options(tenant="a"), 1)
        await batch.enqueue(work.options(tenant="b"), 2)
    with pytest.raises(BatchNotFound):
        await a.get_batch(batch.id)
    assert await a.cancel(ours)
    status = await batch.status()
    assert (status.total, status.pending, status.cancelled) == (2, 1, 1)
    await a.retry(ours)
    status = await batch.status()
    assert (status.total, status.pending, status.cancelled) == (2, 2, 0)


async def test_a_retry_in_a_finished_batch_of_nobody_reopens_it(
    ground: Ground, app: Penstock, owner: Penstock
) -> None:
    async with owner.batch() as batch:
        ours = await batch.enqueue(work.options(tenant="a"), 1)
    await app.for_tenant("a").cancel(ours)
    async with ground.owner() as connection:
        await connection.execute("SELECT penstock.fold_v1()")
        assert (await batch.status()).state == "finished"
        await app.for_tenant("a").retry(ours)
        await connection.execute("SELECT penstock.fold_v1()")
        assert await connection.fetchval("SELECT finished_at IS NULL FROM penstock.batch")
    assert (await batch.status()).pending == 1


async def test_callback_for_another_tenant_stays_with_its_writer(
    ground: Ground, app: Penstock
) -> None:
    crossing = json.dumps({"end": {"task": "work", "tenant": "b"}})
    async with ground.trying("a") as connection:
        batch = await connection.fetchval(
            "INSERT INTO penstock.batch (tenant, callbacks) VALUES ('a', $1) RETURNING id", crossing
        )
        await connection.fetch("SELECT penstock.close_batch_v1($1)", [batch])
        await connection.execute("RESET ROLE; SELECT penstock.fold_v1()")
        assert await connection.fetchval("SELECT tenant FROM penstock.job") == "a"


JOB = "INSERT INTO penstock.job (id, task, state, tenant, {}) VALUES (9, 'x', 'blocked', 'b', $1)"
HISTORY = (
    "INSERT INTO penstock.job_history SELECT (jsonb_populate_record(h, jsonb_build_object("
    "'id', 1000, '{}', $1::bigint))).* FROM penstock.job_history AS h WHERE h.id = 102"
)


@pytest.mark.parametrize("link", ["batch", "workflow"])
@pytest.mark.parametrize("sql", [JOB, HISTORY], ids=["job", "history"])
async def test_a_job_cannot_be_put_into_what_another_tenant_has(
    seeded: Ground, link: str, sql: str
) -> None:
    """Its end would count there."""
    async with seeded.trying("b") as connection:
        assert await connection.execute(sql.format(link), 2) == "INSERT 0 1"
    for another in (1, 3):  # a's, and one that is not there yet
        async with seeded.trying("b") as connection:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(sql.format(link), another)
    async with seeded.trying("b") as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(f"UPDATE penstock.job SET {link} = 1")


async def test_of_a_batch_of_nobody_a_tenant_sees_no_counts(
    ground: Ground, owner: Penstock
) -> None:
    async with owner.batch() as batch:
        await batch.enqueue(work.options(tenant="a"), 1)
        await batch.enqueue(work.options(tenant="b"), 2)
    async with ground.trying("a") as connection:
        assert await connection.fetchval("SELECT count(*) FROM penstock.job") == 1
        assert await connection.fetchval("SELECT count(*) FROM penstock.batch_delta") == 0
