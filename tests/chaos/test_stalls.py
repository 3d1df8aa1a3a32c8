"""Handlers that keep the event loop for themselves."""

from tests.chaos.scene import Scene
from tests.fixtures.until import until

LEASE = 4.0  # short, but not for a slow machine
STALL = 0.5


async def test_handler_blocking_the_loop_past_its_lease_keeps_its_job(scene: Scene) -> None:
    [job] = await scene.enqueue("blocks", "open")
    blocked = scene.worker("blocked", lease=LEASE, heartbeat=0.2)
    await scene.effect(job=job, what="start")
    first_end = await scene.value("SELECT expires_at FROM penstock.lease")
    scene.worker("other")
    outlived = "SELECT clock_timestamp() > $1"
    await until(lambda: scene.value(outlived, first_end), what="the time of a lease to pass")
    scene.open_gate("open")
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["runs"] == 1
    assert (await scene.row(job))["losses"] == 0
    [stalled, *_] = await scene.event(blocked, "LoopStalled")
    assert (stalled["task"], stalled["job_id"]) == ("blocks", str(job))


async def test_process_with_a_blocked_loop_exits_and_says_where(scene: Scene) -> None:
    [job] = await scene.enqueue("blocks", "never")
    stuck = scene.worker("stuck", heartbeat=0.2, stall_limit=STALL, exit_on_stall=True)
    await scene.effect(job=job, what="start")
    other = scene.worker("other")
    assert await stuck.ended() == 70
    assert "tasks.py" in stuck.words
    assert "in blocks" in stuck.words
    await scene.bury()
    await scene.drained()
    assert scene.effects(job=job, what="done")[0]["process"] == other.name
    await scene.expect_promises_kept()


async def test_worker_with_a_blocked_loop_loses_its_job(scene: Scene) -> None:
    [job] = await scene.enqueue("blocks", "never")
    stuck = scene.worker("stuck", heartbeat=0.2, stall_limit=STALL)
    await scene.effect(job=job, what="start")
    other = scene.worker("other")
    await until(lambda: "the lease is given up" in stuck.words, what="the lease to be given up")
    await scene.end_lease(stuck)
    await scene.drained()
    assert scene.effects(job=job, what="done")[0]["process"] == other.name
    assert stuck.is_running
    assert "in blocks" in stuck.words
    await scene.expect_promises_kept()
