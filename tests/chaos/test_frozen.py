"""Workers that are stopped in their tracks and wake up when the world has moved on."""

import pytest

from tests.chaos.mutation import take_the_token_out_of_the_settle
from tests.chaos.process import Process
from tests.chaos.scene import Scene
from tests.fixtures.elapsed import Elapsed
from tests.fixtures.until import until

LEASE = 2.5


@pytest.fixture
async def reclaimed(scene: Scene) -> tuple[int, Process, Process]:
    """A job that a worker had done when it froze, just before its settle; another runs it now."""
    [job] = await scene.enqueue("gated", "work")
    frozen = scene.worker("frozen", failpoint="settle.before:freeze:1", lease=LEASE)
    await scene.effect(job=job, what="start", process="frozen")
    scene.open_gate("work")
    await frozen.frozen()
    scene.close_gate("work")
    other = scene.worker("other")
    await scene.effect(job=job, what="start", process="other")
    return job, frozen, other


async def test_a_worker_frozen_past_its_lease_cannot_complete_the_job(
    scene: Scene, reclaimed: tuple[int, Process, Process]
) -> None:
    job, frozen, _ = reclaimed
    frozen.thaw()
    await scene.event(frozen, "SettleRefused")
    assert (await scene.row(job))["state"] == "running"
    scene.open_gate("work")
    await scene.drained()
    [settled] = scene.log("settle", outcome="ok", job=job)
    assert settled["process"] == "other"
    row = await scene.row(job)
    assert (row["state"], str(row["last_token"])) == ("completed", settled["token"])
    await scene.expect_promises_kept()


async def test_checker_finds_a_stale_write_without_the_token_check(
    scene: Scene, reclaimed: tuple[int, Process, Process]
) -> None:
    job, frozen, _ = reclaimed
    await take_the_token_out_of_the_settle(scene.url)
    frozen.thaw()
    await scene.settled(job)
    scene.open_gate("work")
    await scene.drained()
    verdict = await scene.verdict()
    stale = [
        each for each in verdict.violations if each.startswith(f"I2 job {job}: frozen was told")
    ]
    assert stale, str(verdict)


async def test_worker_frozen_past_its_lease_goes_on_with_a_new_one(scene: Scene) -> None:
    [job] = await scene.enqueue("gated", "work")
    frozen = scene.worker("frozen", lease=LEASE)
    await scene.effect(job=job, what="start", process="frozen")
    frozen.freeze()
    other = scene.worker("other")
    await scene.effect(job=job, what="start", process="other")
    frozen.thaw()
    await scene.effect(job=job, what="stopped", process="frozen")
    await scene.event(frozen, "LeaseTaken", count=2)
    scene.open_gate("work")
    await scene.drained()
    other.ask_to_stop()
    assert await other.ended() == 0
    [next_job] = await scene.enqueue("note")
    await scene.drained()
    assert scene.effects(job=next_job, what="done")[0]["process"] == "frozen"
    await scene.expect_promises_kept()


async def test_frozen_worker_loses_the_job_it_has_fenced(scene: Scene) -> None:
    [job] = await scene.enqueue("fenced", "work")
    frozen = scene.worker("frozen", lease=LEASE)
    await scene.effect(job=job, what="start", process="frozen")
    frozen.freeze()
    scene.worker("other")
    await scene.effect(job=job, what="start", process="other")
    scene.open_gate("work")
    await scene.drained()
    frozen.thaw()
    await scene.event(frozen, "LeaseTaken", count=2)
    await scene.expect_promises_kept()
    [settled] = scene.log("settle", outcome="ok", job=job)
    assert settled["process"] == "other"


async def test_suspended_worker_does_not_count_as_blocked(scene: Scene) -> None:
    limit = 2.0
    worker = scene.worker("suspended", heartbeat=0.2, stall_limit=limit, exit_on_stall=True)
    await worker.ready()
    await scene.event(worker, "LeaseTaken")
    worker.freeze()
    pause = Elapsed()
    await until(lambda: pause.seconds > limit + 1, what="the time of a blocked loop to pass")
    worker.thaw()
    await scene.enqueue("note")
    await scene.drained()
    worker.ask_to_stop()
    assert await worker.ended() == 0
