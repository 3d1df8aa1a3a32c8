"""Workers that are killed at the worst moments."""

import os
import signal
from dataclasses import dataclass
from itertools import count

import pytest

from tests.chaos.held_commit import held_commit
from tests.chaos.process import Process
from tests.chaos.scene import UNFINISHED, Scene
from tests.fixtures.until import until

JOBS = 10  # as many as one claim takes
LOSSES = 3  # the limit
GIVEN_UP = """
SELECT coalesce(array_agg(id), '{}') FROM penstock.job_history WHERE reason = 'worker_lost'
"""


@dataclass(frozen=True, slots=True)
class Storm:
    """How many kills, beside those that some jobs do themselves."""

    workers: int
    kills: int
    jobs: int
    killers: int


SHORT = Storm(workers=2, kills=3, jobs=40, killers=1)
LONG = Storm(workers=3, kills=30, jobs=600, killers=4)
STORM = LONG if os.environ.get("PENSTOCK_LONG") else SHORT


@pytest.mark.parametrize(
    ("place", "runs_twice"),
    [
        ("claim.before", False),  # nothing was claimed
        ("claim.after", False),  # claimed, but never begun
        ("settle.before", True),  # done, but nobody was told
        ("settle.after", False),  # done and told: nobody does it again
    ],
)
async def test_a_worker_killed_before_or_after_a_commit_loses_no_job(
    scene: Scene, place: str, runs_twice: bool
) -> None:
    await scene.enqueue("note", count=JOBS)
    victim = scene.worker("victim", failpoint=f"{place}:kill:1")
    assert await victim.ended() == -signal.SIGKILL
    await scene.bury()
    scene.worker("heir")
    await expect_all_completed(scene, runs_twice)


@pytest.mark.parametrize(
    ("table", "commits", "runs_twice"),
    [
        ("job", True, False),
        ("job", False, False),
        ("job_history", True, False),
        ("job_history", False, True),
    ],
    ids=["claim-commits", "claim-rolled-back", "settle-commits", "settle-rolled-back"],
)
async def test_kill_during_a_commit_loses_no_job(
    scene: Scene, table: str, commits: bool, runs_twice: bool
) -> None:
    await scene.enqueue("note", count=JOBS)
    async with held_commit(scene.url, table) as commit:
        victim = scene.worker("victim")
        backend = await commit.waiting()
        victim.kill()
        if not commits:
            await commit.roll_back(backend)
    await scene.bury()
    scene.worker("heir")
    await expect_all_completed(scene, runs_twice)


async def expect_all_completed(scene: Scene, runs_twice: bool) -> None:
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == JOBS
    assert verdict.numbers["jobs that ran more than once"] == (JOBS if runs_twice else 0)
    # Fresh jobs are not marked, so nobody knows of these whether they had begun.
    assert await scene.value("SELECT sum(losses) FROM penstock.job_history") == 0


@pytest.mark.parametrize(("times", "losses"), [(1, 0), (2, 1)])
async def test_job_of_a_killed_worker_runs_on_another(
    scene: Scene, times: int, losses: int
) -> None:
    [job] = await scene.enqueue("dies", times)
    workers = [scene.worker(f"worker-{number}") for number in range(times + 1)]
    for death in range(1, times + 1):
        await scene.deaths(death)
    await scene.drained()
    row = await scene.row(job)
    assert (row["state"], row["attempt"], row["losses"]) == ("completed", times + 1, losses)
    assert sum(worker.is_running for worker in workers) == 1
    await scene.expect_promises_kept()


async def test_job_that_kills_every_worker_fails_and_others_complete(scene: Scene) -> None:
    [bad] = await scene.enqueue("dies", 100)
    await scene.enqueue("slow", 0.01, count=20)
    workers = [scene.worker(f"worker-{number}") for number in range(5)]
    # One death more than the limit of three: nobody marks a fresh job, so its first is not counted.
    for death in (1, 2, 3, 4):
        await scene.deaths(death)
    await scene.drained()
    row = await scene.row(bad)
    assert (row["state"], row["reason"], row["losses"]) == ("failed", "worker_lost", 3)
    # Each beginning kills, so four workers are dead. A claim that was given back unbegun is one
    # attempt more.
    assert row["attempt"] >= 4
    assert sum(worker.is_running for worker in workers) == 1
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == 20
    paid = "SELECT max(losses) FROM penstock.job_history WHERE id <> $1"
    assert await scene.value(paid, bad) == 0


@pytest.mark.parametrize(
    ("poison", "arguments"),
    [
        ("dies", '{"times": 100}'),
        ("dies-in-a-thread", "{}"),
        ("dies-decoding", '{"deadly": {"value": 1}}'),
        ("dies-grouping", '{"item": 1}'),
    ],
)
async def test_suspects_beside_a_killer_job_count_no_losses(
    scene: Scene, poison: str, arguments: str
) -> None:
    """They are suspects, too, which no child can run, and none may have the worker alone."""
    bad = await scene.value("SELECT penstock.enqueue($1, $2)", poison, arguments)
    beside = [
        *await scene.enqueue("note", count=2),
        *await scene.enqueue("counts", 1, count=2),
    ]
    await scene.value("UPDATE penstock.job SET suspect = true")
    for number in range(LOSSES):
        victim = scene.worker(f"victim-{number}", isolation_wait=0.0)
        assert await victim.ended(60) == -signal.SIGKILL
        await scene.bury()
    scene.worker("heir", isolation_wait=0.0)
    await scene.drained()
    row = await scene.row(bad)
    assert (row["state"], row["reason"], row["losses"]) == ("failed", "worker_lost", LOSSES)
    for job in beside:
        row = await scene.row(job)
        assert (row["state"], row["losses"]) == ("completed", 0)


async def test_no_number_of_kills_fails_a_job_that_has_not_begun(scene: Scene) -> None:
    """Each worker dies with all that it has fetched, more often than the limit of losses."""
    await scene.enqueue("note", count=JOBS)
    for number in range(LOSSES + 1):
        victim = scene.worker(f"victim-{number}", failpoint="claim.after:kill:1")
        assert await victim.ended() == -signal.SIGKILL
        await scene.bury()
    scene.worker("heir")
    await expect_all_completed(scene, runs_twice=False)


@pytest.mark.timeout(900)
async def test_storm_of_kills_fails_only_jobs_that_had_begun(scene: Scene) -> None:
    """It finds jobs in every state: fetched, marked, running, done and not settled."""
    killers = await scene.enqueue("dies", 1000, count=STORM.killers)
    await scene.enqueue("slow", 0.02, count=STORM.jobs)
    workers: list[Process] = []
    done, kills = 0, 0

    async def is_over() -> bool:
        nonlocal done, kills
        if kills < STORM.kills and scene.done_so_far() > done:
            done, kills = scene.done_so_far(), kills + 1
            workers[0].kill()
        dead = [worker for worker in workers if not worker.is_running]
        if dead or not workers:
            await scene.bury()
            workers[:] = [worker for worker in workers if worker not in dead]
            missing = STORM.workers - len(workers)
            workers.extend(scene.worker(f"worker-{next(numbers)}") for _ in range(missing))
        return kills == STORM.kills and not await scene.value(UNFINISHED)

    numbers = count()
    await until(is_over, 600, what="all jobs to end")
    verdict = await scene.expect_promises_kept()
    lost = await scene.value(GIVEN_UP)
    assert set(killers) <= set(lost)
    for job in lost:
        # Three times that count, and most often one before, when nobody marked it.
        assert len(scene.effects(job=job, what="start")) >= LOSSES
    assert verdict.numbers["jobs completed"] == STORM.jobs + STORM.killers - len(lost)
