"""Calls that many jobs share, with a worker that is killed in the middle of one."""

from tests.chaos.scene import Scene
from tests.fixtures.until import until

JOBS = 40


async def test_kill_during_a_shared_call_loses_and_repeats_no_item(scene: Scene) -> None:
    await scene.enqueue("shared", "work", count=JOBS)
    victim = scene.worker("victim", slots=1)
    await until(lambda: len(scene.effects(what="start")) >= 1, what="a call")
    await scene.kill(victim)
    scene.open_gate("work")
    scene.worker("heir", slots=1)
    await scene.drained(60)
    await scene.expect_promises_kept(patience=60)
    written = "SELECT count(*) = count(DISTINCT job) AND count(*) = $1 FROM chaos.effect"
    assert await scene.value(written, JOBS)
    done = "SELECT count(*) FROM penstock.job_history WHERE state = 'completed'"
    assert await scene.value(done) == JOBS
