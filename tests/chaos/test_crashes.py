"""A database that crashes under load, again and again."""

import asyncio
import os
import random
import time

import pytest

from tests.chaos.crashing import CrashingServer
from tests.chaos.mutation import let_acknowledged_work_be_lost
from tests.chaos.scene import Scene

CRASHES = 8 if os.environ.get("PENSTOCK_LONG") else 2
JOBS = 200 * CRASHES
LEASE = 1.5
LONGEST_AWAY = 2 * LEASE


async def test_acknowledged_jobs_survive_crashes_of_the_database(
    crashing_scene: Scene, server: CrashingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = crashing_scene
    rng = random.Random(7)
    workers = [scene.worker(name, lease=LEASE) for name in ("one", "other")]
    producer = scene.enqueuer("producer", jobs=JOBS, seed=7)
    for crash in range(1, CRASHES + 1):
        enough = JOBS * crash // (CRASHES + 1)
        await scene.done(enough)
        await server.crash(away=rng.uniform(0, LONGEST_AWAY))
        scene.crashes += 1
    assert await producer.ended(60.0) == 0, producer.words
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    with capsys.disabled():
        print(f"\n{CRASHES} crashes: {verdict}")
    assert all(worker.is_running for worker in workers)


async def test_checker_finds_jobs_lost_without_durable_commits(
    crashing_scene: Scene, server: CrashingServer
) -> None:
    await let_acknowledged_work_be_lost(server.url)
    await server.write_log()
    jobs = await crashing_scene.enqueue("note", count=10)
    await server.crash(away=0)
    verdict = await crashing_scene.verdict()
    assert f"I1 job {jobs[-1]} was acknowledged and is lost" in verdict.violations


async def test_outcome_of_an_outage_is_written_after_it(
    crashing_scene: Scene, server: CrashingServer
) -> None:
    scene = crashing_scene
    [job] = await scene.enqueue("gated", "work")
    worker = scene.worker("worker", lease=60.0, heartbeat=1.0)
    await scene.effect(job=job, what="start")
    await scene.enqueue("note")  # Its commit brings all that came before it to the disk.
    outage = asyncio.create_task(server.crash(away=4.0))
    await scene.event(worker, "DatabaseGone")
    scene.open_gate("work")
    await outage
    back = time.monotonic()
    [settled] = await scene.logged("settle", "worker", outcome="ok", job=job)
    assert settled["at"] - back < 20, "long before its lease would have been over"
    assert len(scene.effects(job=job, what="start")) == 1
