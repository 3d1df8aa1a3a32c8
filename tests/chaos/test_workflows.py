"""A fan-in that several worker processes race for, some of which are killed."""

import asyncio
import os
from typing import Any

from penstock import Started, Workflow
from tests.chaos.scene import Scene

PARENTS = 1000 if os.environ.get("PENSTOCK_LONG") else 400
WORKERS = 3


async def start(scene: Scene, parents: int) -> Started:
    async with scene.app() as app:
        note: Any = app.tasks.find("note")
        slow: Any = app.tasks.find("slow")
        flow = Workflow("fan")
        fan = [flow.add(note.prepare()) for _ in range(parents - 20)]
        fan += [flow.add(slow.prepare(0.05)) for _ in range(20)]
        merge = flow.add(note.prepare(), name="merge", after=fan)
        flow.add(note.prepare(), name="after", after=merge)
        return await app.start_workflow(flow)


async def test_fan_in_runs_its_child_once_despite_kills(scene: Scene) -> None:
    workers = [scene.worker(f"worker-{n}") for n in range(WORKERS)]
    await asyncio.gather(*(worker.ready() for worker in workers))
    started = await start(scene, PARENTS)
    await scene.done(PARENTS // 4)
    for victim in workers[::2]:
        await scene.kill(victim)
    await scene.drained(60)
    for worker in workers[1::2]:
        worker.ask_to_stop()
        assert await worker.ended() == 0
    for step in ("merge", "after"):
        runs = scene.effects(job=int(started[step].id), what="start")
        assert len(runs) == 1, scene.words()
    verdict = await scene.expect_promises_kept(patience=60)
    assert verdict.numbers["jobs completed"] == PARENTS + 2
    async with scene.app() as app:
        assert (await app.get_workflow(started)).state == "completed"
