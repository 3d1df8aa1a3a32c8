"""Who changed many jobs at once is in the audit, with how many."""

import json
from typing import Any

from penstock import BatchHandle, Penstock, Task, Workflow
from tests.fixtures.database import Database


def failing(app: Penstock) -> Task[[], None]:
    @app.task(name="fail", max_attempts=1)
    async def fail() -> None:
        raise ValueError("broken")

    return fail


async def noted(database: Database) -> list[tuple[Any, ...]]:
    async with database.connect() as connection:
        rows = await connection.fetch(
            "SELECT actor, action, tenant, target, detail FROM penstock.audit ORDER BY id"
        )
    return [(*list(row)[:4], json.loads(row["detail"])) for row in rows]


async def test_a_purge_and_a_redrive_say_how_many_and_which(
    app: Penstock, database: Database
) -> None:
    fail = failing(app)
    jobs = await app.enqueue_many(fail.prepare() for _ in range(3))
    await app.worker().drain()
    await app.redrive(jobs[0], by="ada")
    await app.worker().drain()
    await app.purge(jobs[0], by="ada")
    await app.purge(jobs[0], by="ada")  # nothing is left to be done, or to be told
    await app.for_tenant("acme").purge(task=fail)
    await app.purge(task=fail, error="ValueError", by="bob")
    assert await noted(database) == [
        ("ada", "redrive", "", jobs[0].id, {"jobs": 1}),
        ("ada", "purge", "", jobs[0].id, {"jobs": 1}),
        ("bob", "purge", "", None, {"jobs": 2, "task": "fail", "error": "ValueError"}),
    ]


async def test_a_tenant_s_purge_is_the_tenant_s(app: Penstock, database: Database) -> None:
    fail = failing(app)
    acme = app.for_tenant("acme")
    job = await acme.enqueue(fail)
    await app.worker().drain()
    await acme.purge(job, by="ada")
    assert await noted(database) == [
        ("ada", "purge", "acme", job.id, {"jobs": 1, "tenant": "acme"})
    ]


async def _failed_batch(app: Penstock, fail: Task[[], None]) -> BatchHandle:
    async with app.batch(tenant="acme") as batch:
        await batch.enqueue_many([fail.prepare(), fail.prepare()])
    await app.worker().drain()
    return batch


async def test_audit_notes_a_batch_closed_cancelled_or_retried(
    app: Penstock, database: Database
) -> None:
    fail = failing(app)
    batch = await _failed_batch(app, fail)  # its own end is no news
    await batch.retry(by="ada")
    await app.close_batch(batch, by="bob")
    assert await app.cancel_batch(batch, "wrong file", by="eve") == 2
    assert await noted(database) == [
        ("ada", "redrive", "", None, {"jobs": 2, "batch": batch.id}),
        ("bob", "close_batch", "acme", batch.id, {"pending": 2}),
        ("eve", "cancel_batch", "acme", batch.id, {"pending": 2, "reason": "wrong file"}),
    ]


async def test_a_workflow_cancelled_retried_or_let_go_is_noted(
    app: Penstock, database: Database
) -> None:
    fail = failing(app)
    flow = Workflow()
    flow.chain(fail.prepare(), fail.prepare())
    started = await app.start_workflow(flow)
    last = list(started.jobs.values())[-1]
    await app.cancel_workflow(started, by="ada")
    await app.retry_workflow(started, by="bob")
    await app.unblock(last, by="eve")
    assert await noted(database) == [
        ("ada", "cancel_workflow", "", started.id, {"jobs": 2, "reason": "requested"}),
        ("bob", "retry_workflow", "", started.id, {"jobs": 2}),
        ("eve", "unblock", "", last.id, {"jobs": 1}),
    ]
