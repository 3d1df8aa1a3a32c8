"""Schedules whose leader is killed at the tick: each tick has one job, and none is left out."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from tests.chaos.held_commit import held_commit
from tests.chaos.process import Process
from tests.chaos.scene import Scene
from tests.fixtures.database import connected
from tests.fixtures.until import until

EVERY = 0.5
LEADER = """
SELECT l.worker FROM penstock.leader AS r JOIN penstock.lease AS l ON l.id = r.lease
WHERE r.role = 'orchestration' AND r.expires_at > clock_timestamp()
"""
FIRES = "SELECT count(*) FROM penstock.schedule_fire"


@asynccontextmanager
async def three_workers(scene: Scene) -> AsyncIterator[dict[str, Process]]:
    names = ("one", "two", "three")
    workers = {name: scene.worker(name, every=EVERY) for name in names}
    for worker in workers.values():
        await worker.ready()
    await more_fires(scene, 2)
    yield workers
    for worker in workers.values():
        if worker.is_running:
            worker.ask_to_stop()
            assert await worker.ended() == 0
    await expect_one_job_for_each_tick(scene)


async def leader(scene: Scene) -> str:
    return str(await until(lambda: scene.value(LEADER), what="a leader"))


async def more_fires(scene: Scene, number: int) -> None:
    goal = await scene.value(FIRES) + number

    async def enough() -> bool:
        return bool(await scene.value(FIRES) >= goal)

    await until(enough, what=f"{number} more ticks")


async def expect_one_job_for_each_tick(scene: Scene) -> None:
    async with connected(scene.url) as connection:
        anchor = await connection.fetchval("SELECT anchor FROM penstock.schedule")
        fires = await connection.fetch("SELECT tick, job FROM penstock.schedule_fire ORDER BY tick")
        jobs = await connection.fetch("SELECT id, meta FROM penstock.job_all")
    ticks = [row["tick"] for row in fires]
    assert ticks == [anchor + timedelta(seconds=EVERY * (n + 1)) for n in range(len(ticks))]
    by_job = {row["id"]: datetime.fromisoformat(json.loads(row["meta"])["tick"]) for row in jobs}
    assert by_job == {row["job"]: row["tick"] for row in fires}, scene.words()


async def test_kills_of_leaders_neither_skip_nor_repeat_a_tick(scene: Scene) -> None:
    """The first one's commit is rolled back, the second one's goes through after its death."""
    async with three_workers(scene) as workers:
        async with held_commit(scene.url, "schedule_fire") as commit:
            backend = await commit.waiting()
            first = await leader(scene)
            workers[first].kill()
            await commit.roll_back(backend)
            await until(lambda: another_leads(scene, first), what="another leader")
            await commit.waiting()
            second = await leader(scene)
            workers[second].kill()
        await until(lambda: another_leads(scene, second), what="a third leader")
        await more_fires(scene, 3)


async def another_leads(scene: Scene, before: str) -> bool:
    return await scene.value(LEADER) not in (None, before)
