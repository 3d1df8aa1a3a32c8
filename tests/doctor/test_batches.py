"""Batches that nobody brings to their end."""

import asyncpg

from penstock import Penstock
from tests.doctor.examined import ERROR, OK, WARNING, Examined


async def test_a_batch_that_is_open_without_a_change_is_named(
    app: Penstock, examined: Examined
) -> None:
    batch = await app.open_batch("import")
    [finding] = await examined("batches")
    assert finding.verdict is OK
    [finding] = await examined("batches", batch_open=0)
    assert finding.verdict is WARNING
    assert f"Batch {batch.id} (import) is open without a change" in finding.seen
    assert finding.paste == (f"penstock batches close {batch.id}",)
    await app.open_batch()
    [finding] = await examined("batches", batch_open=0)
    assert "are open" in finding.seen


async def test_a_batch_that_is_over_and_not_finished_is_an_error(
    app: Penstock, connection: asyncpg.Connection, examined: Examined
) -> None:
    @app.task
    async def work() -> None: ...

    async with app.batch() as going, app.batch() as over:
        await going.enqueue(work)
    [finding] = await examined("batches", batch_over=0)
    assert finding.verdict is ERROR
    assert f"Batch {over.id} is over" in finding.seen
    await connection.execute("SELECT penstock.fold_v1()")
    [finding] = await examined("batches", batch_over=0)
    assert finding.verdict is OK
