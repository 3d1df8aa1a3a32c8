"""Batches whose workers are killed: no count is off, and each callback comes exactly once."""

import os

import pytest

from penstock import BatchHandle, Penstock
from tests.chaos.held_commit import held_commit
from tests.chaos.scene import Scene, requests
from tests.fixtures.database import connected
from tests.fixtures.until import until

JOBS = 2000 if os.environ.get("PENSTOCK_LONG") else 700
CALLBACKS = """
SELECT meta ->> 'moment' AS moment, count(*) FROM penstock.job_all
WHERE meta ? 'moment' GROUP BY 1
"""


async def filled(app: Penstock, sound: int, broken: int) -> BatchHandle:
    """A closed batch with all callbacks."""
    [note] = requests(app, "note")
    async with app.batch(on_success=note, on_end=note, on_failure=note) as batch:
        await batch.enqueue_many(requests(app, "note", count=sound // 2))
        await batch.enqueue_many(requests(app, "breaks", count=broken))
        await batch.enqueue_many(requests(app, "note", count=sound - sound // 2))
    return batch


async def callbacks(scene: Scene) -> dict[str, int]:
    async with connected(scene.url) as connection:
        return {row["moment"]: row["count"] for row in await connection.fetch(CALLBACKS)}


async def test_jobs_whose_workers_are_killed_are_counted_exactly(
    scene: Scene,
) -> None:
    async with scene.app() as app:
        batch = await filled(app, sound=JOBS - 20, broken=20)
        workers = [scene.worker(f"worker-{number}") for number in range(3)]
        for number, share in enumerate((0.1, 0.35, 0.65)):
            await scene.done(int(share * JOBS))
            await scene.kill(workers[number])
            workers.append(scene.worker(f"heir-{number}"))
        status = await batch.wait(60)
        await scene.drained()
    assert (status.total, status.pending, status.running) == (JOBS, 0, 0), scene.words()
    assert (status.completed, status.failed, status.cancelled) == (JOBS - 20, 20, 0)
    assert await callbacks(scene) == {"end": 1, "failure": 1}


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolled-back"])
async def test_batch_calls_back_once_if_a_kill_interrupts_its_end(
    scene: Scene, commits: bool
) -> None:
    async with scene.app() as app:
        batch = await filled(app, sound=10, broken=0)
        async with held_commit(scene.url, "batch") as commit:
            victim = scene.worker("victim")
            backend = await commit.waiting()
            await scene.kill(victim)
            if not commits:
                await commit.roll_back(backend)
        scene.worker("heir")
        status = await batch.wait(30)
        await until(lambda: both(scene))
    assert (status.completed, status.pending) == (10, 0), scene.words()
    assert await callbacks(scene) == {"end": 1, "success": 1}


async def both(scene: Scene) -> bool:
    return len(await callbacks(scene)) == 2
