"""Unique keys that many want at once, while workers are killed."""

import asyncio
import random
from typing import Any

from penstock import Penstock, Unique
from tests.chaos.scene import Scene

KEYS = 4
ENQUEUERS = 4
# Postgres itself refuses what must never be: two live jobs with one key.
NO_TWINS = """
CREATE UNIQUE INDEX no_twins ON penstock.job (tenant, unique_key) WHERE unique_key IS NOT NULL
"""
ENDS = """
SELECT count(*) FILTER (WHERE state = 'completed') > 0 AND
       count(*) FILTER (WHERE reason = 'superseded' AND attempt > 0) > 0
FROM penstock.job_history
"""


async def test_a_key_has_at_most_one_live_job_however_workers_die(scene: Scene) -> None:
    await scene.value(NO_TWINS)
    workers = [scene.worker(f"worker-{n}", slots=2) for n in range(3)]
    over = asyncio.Event()
    async with scene.app() as app:
        enqueuing = [asyncio.create_task(enqueue(app, seed, over)) for seed in range(ENQUEUERS)]
        for victim in workers[:2]:
            await scene.done(scene.done_so_far() + 20)
            await scene.kill(victim)
        scene.worker("heir")
        await scene.done(scene.done_so_far() + 20)
        over.set()
        duplicates = sum(await asyncio.gather(*enqueuing))
    await scene.drained()
    await scene.expect_promises_kept()
    assert duplicates
    assert await scene.value(ENDS)
    assert await scene.value("SELECT count(*) FROM penstock.unique_claim") == 0


async def enqueue(app: Penstock, seed: int, over: asyncio.Event) -> int:
    """Enqueue as long as nobody says that it is over; how many were there already."""
    rng = random.Random(seed)
    slow: Any = app.tasks.find("slow")
    duplicates = 0
    while not over.is_set():
        on_conflict = "skip" if rng.random() < 0.8 else "supersede"
        rule = Unique(key=f"key-{rng.randrange(KEYS)}", on_conflict=on_conflict)
        enqueued = await app.enqueue(slow.options(unique=rule), 0.01)
        duplicates += enqueued.duplicate
    return duplicates
