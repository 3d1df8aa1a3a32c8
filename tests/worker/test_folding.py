"""Several workers fold a batch: its row changes ten times a second at most, and its end is told."""

import asyncio
import time
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.store.batches import Batches, Folded
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

COUNT_CHANGES = """
CREATE TABLE penstock.change (at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE FUNCTION penstock.note_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO penstock.change DEFAULT VALUES; RETURN NULL; END $$;
CREATE TRIGGER note_change AFTER UPDATE ON penstock.batch
    FOR EACH ROW EXECUTE FUNCTION penstock.note_change();
"""


CHANGES = "SELECT count(*) FROM penstock.change"


async def test_many_workers_change_a_batch_ten_times_a_second_at_most(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    changed = asyncio.Event()

    @app.task
    async def note() -> None:
        await asyncio.sleep(0.02)

    @app.task
    async def last() -> None:
        await changed.wait()

    async with app.batch() as batch:
        await batch.enqueue_many([last.prepare(), *(note.prepare() for _ in range(400))])
    await connection.execute(COUNT_CHANGES)
    workers = [worker_of(app, {"default": 2}) for _ in range(4)]
    began = time.monotonic()
    async with workers[0], workers[1], workers[2], workers[3]:
        await until(lambda: connection.fetchval(CHANGES), what="a first change")
        changed.set()
        status = await batch.wait(60)
    took = time.monotonic() - began
    changes = await connection.fetchval(CHANGES)
    assert (status.completed, status.pending) == (401, 0)
    assert took > 0.5
    assert 2 <= changes <= 10 * took + 3


async def test_a_batch_that_was_held_is_folded_by_who_was_refused(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No leader has to find it."""
    folds, fold = list[Folded](), Batches.fold

    async def noted(batches: Batches, *args: Any) -> Folded:
        folds.append(await fold(batches, *args))
        return folds[-1]

    monkeypatch.setattr(Batches, "fold", noted)

    @app.task
    async def note() -> None: ...

    lease = await connection.fetchval("SELECT penstock.open_lease_v1('ghost', 3600)")
    assert await connection.fetchval("SELECT penstock.elect_v1('orchestration', $1, 3600)", lease)
    async with app.batch() as batch:
        await batch.enqueue(note)
    holding = connection.transaction()
    await holding.start()
    await connection.execute("SELECT FROM penstock.batch FOR UPDATE")
    async with worker_of(app) as worker:
        await until(lambda: worker.tally.completed, what="the job's end")
        await until(lambda: sum(fold.passed for fold in folds) > 1, what="the fold to be refused")
        await holding.rollback()
        await batch.wait(30)
