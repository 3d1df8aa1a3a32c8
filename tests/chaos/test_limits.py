"""Limits that many worker processes race for, half of which are killed in the middle."""

import os
from datetime import datetime
from typing import Any

from tests.chaos.overlap import most_at_once, spans
from tests.chaos.process import Process
from tests.chaos.scene import Scene
from tests.fixtures.database import connected
from tests.fixtures.until import until

LONG = "PENSTOCK_LONG" in os.environ
WORKERS = 8 if LONG else 6
SLOTS = 3
TENANTS = [f"tenant-{number}" for number in range(6)]
ROUNDS = 10 if LONG else 1
JOBS = 120 if LONG else 80
LONG_JOBS = 24

LIVE = "SELECT count(*) FROM penstock.lease WHERE expires_at > clock_timestamp()"
HELD = """
SELECT coalesce(sum(g.slots), 0)
FROM penstock."grant" AS g JOIN penstock.lease AS l ON l.id = g.lease
WHERE g.key = 'queue:default' AND l.expires_at > clock_timestamp()
"""


async def test_kills_neither_exceed_a_limit_nor_lose_its_slots(scene: Scene) -> None:
    await set_limits(scene)
    deaths: dict[str, datetime] = {}
    enqueued, crowd = 0, 0
    for _ in range(ROUNDS):
        enqueued += await enqueue(scene, JOBS, 0.01)
        workers = [scene.worker(f"worker-{crowd + n}") for n in range(WORKERS)]
        crowd += WORKERS
        for worker in workers:
            await worker.ready()
        await scene.done(enqueued - JOBS * 3 // 4)
        for victim in workers[::2]:
            await kill(scene, victim, deaths)
        await scene.bury()
        # When the leases of the dead are over, the living have all that there is.
        await until(lambda: leases_are(scene, WORKERS // 2), 15, what="the leases to be over")
        await scene.drained(60)
        enqueued += await use_all_slots(scene, gate=f"all-slots-{crowd}")
        enqueued += await enqueue(scene, LONG_JOBS, 0.05)
        await scene.drained(60)
        await expect_limits_kept(scene, deaths)
        for worker in workers[1::2]:
            worker.ask_to_stop()
            assert await worker.ended() == 0
    assert await scene.value(HELD) == 0
    verdict = await scene.expect_promises_kept(patience=60)
    assert verdict.numbers["jobs completed"] == enqueued


async def set_limits(scene: Scene) -> None:
    async with scene.app() as app:
        await app.set_queue("default", fair=True)
        await app.set_limit("queue:default", slots=SLOTS)
        await app.set_limit("lane:default:*", slots=1)


async def enqueue(scene: Scene, count: int, seconds: float) -> int:
    async with scene.app() as app:
        timed: Any = app.tasks.find("timed")
        tenants = [TENANTS[number % len(TENANTS)] for number in range(count)]
        await app.enqueue_many(timed.options(tenant=tenant).prepare(seconds) for tenant in tenants)
    return count


async def use_all_slots(scene: Scene, gate: str) -> int:
    """Jobs that end once all slots are used: if one was lost, they never do."""
    async with scene.app() as app:
        gated: Any = app.tasks.find("gated")
        requests = [gated.options(tenant=tenant).prepare(gate) for tenant in TENANTS[:SLOTS]]
        jobs = {int(each.id) for each in await app.enqueue_many(requests)}

    def all_have_started() -> bool:
        return jobs <= {effect["job"] for effect in scene.effects(what="start")}

    await until(all_have_started, 60, what=f"{SLOTS} jobs at once")
    scene.open_gate(gate)
    return len(jobs)


async def kill(scene: Scene, victim: Process, deaths: dict[str, datetime]) -> None:
    victim.kill()
    deaths[victim.name] = await scene.value("SELECT clock_timestamp()")


async def leases_are(scene: Scene, count: int) -> bool:
    return bool(await scene.value(LIVE) == count)


async def expect_limits_kept(scene: Scene, deaths: dict[str, datetime]) -> None:
    async with connected(scene.url) as connection:
        ran = await spans(connection, deaths)
    assert most_at_once(ran) <= SLOTS, scene.words()
    for lane in TENANTS:
        assert most_at_once(span for span in ran if span.lane == lane) == 1, scene.words()
